package syncer_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/parts"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
)

// shareParts writes the spec of a replica that names parts, and returns what writes these.
// text is the name of the first.
func (r *rig) shareParts(p *replica, key seal.Key) (text string, write func()) {
	r.t.Helper()
	service, err := json.Marshal(p.service())
	if err != nil {
		r.t.Fatal(err)
	}
	secrets, made, err := parts.Secrets(p.owner, fmt.Appendf(nil, `{"environment":{"secrets":{"KEY":%q}}}`, p.secret))
	if err != nil {
		r.t.Fatal(err)
	}
	if key == (seal.Key{}) {
		key = made
	}
	spec := record.Spec{V: 1, Changes: json.RawMessage(`{}`), VolumeGoes: true}
	all := append(parts.Text(p.owner, service), secrets...)
	for _, part := range all {
		spec.Parts = append(spec.Parts, part.Name)
	}
	own := fmt.Appendf(nil, `{"key":%q,"changes":{"token":%q}}`, key.Secret(), p.token)
	spec.Sealed, err = seal.Seal(seal.Header{Purpose: seal.PurposeSpecChanges, Cluster: clusterID, UID: p.uid, Generation: p.generation}, own, r.identity.Recipient())
	if err != nil {
		r.t.Fatal(err)
	}
	r.put(record.SpecKey(clusterID, record.SpecName(p.name, p.uid, p.generation)), spec)
	return all[0].Name, func() {
		for _, part := range all {
			r.put(record.PartKey("fed", part.Name), part.Rec)
		}
	}
}

// A part that is not there, as after a restored store, is waited for: what is unknown orders
// nothing.
func TestAPartThatIsNotThereIsWaitedFor(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		log := &await.Output{}
		r.start(func(c *syncer.Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		p := newReplica("grayify")
		text, write := r.shareParts(p, seal.Key{})
		r.want(p, record.IntentPrepare)
		r.eventually("it is looked for", func() bool { return strings.Contains(log.String(), text) })
		write()
		r.await(p, record.PhasePrepared)
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		r.inPlace(p)
		r.equalCalls(p.name, "create")

		p.generation++
		text, write = r.shareParts(p, seal.Key{})
		r.want(p, record.IntentApply)
		r.eventually("it is looked for again", func() bool { return strings.Contains(log.String(), text) })
		r.equalCalls(p.name, "create")
		write()
		r.await(p, record.PhaseReady)
		r.inPlace(p)
		r.equalCalls(p.name, "create", "update")
	})
}

func TestPartsThatCannotBeOpenedAreReported(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		_, write := r.shareParts(p, seal.NewKey())
		write()
		r.want(p, record.IntentPrepare)
		if o := r.await(p, record.PhaseRefused); o.Reason != record.ReasonInvalidService {
			t.Errorf("refused with %s: %s", o.Reason, o.Message)
		}
		r.equalCalls(p.name)
	})
}

// A syncer says in its session whether it reads parts.
func TestASyncerSaysWhetherItReadsParts(t *testing.T) {
	for _, form := range []int{1, record.FormParts} {
		t.Run(fmt.Sprint("form ", form), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start(func(cfg *syncer.Config) { cfg.Forms = record.Forms{Reads: form, Writes: form} })
				r.eventually("it has a session", r.hasSession)
				kv, err := r.store.Get(t.Context(), record.SessionKey(clusterID))
				if err != nil {
					t.Fatal(err)
				}
				s, err := store.Decode[record.Session](kv)
				if err != nil || s.Parts != (form == record.FormParts) {
					t.Errorf("its session is %s", kv.Value)
				}
			})
		})
	}
}
