package federations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/store/parts"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// shared is what the records of one generation share: what all replicas of the federation are
// sent alike.
type shared struct {
	// texts name the parts that text is made of. Those in first are the whole that base is; a
	// change that leaves most of it writes a merge patch on it.
	texts, first []string
	text, base   []byte
	// sealed name the parts with the secrets, which key opens; empty for none.
	sealed  []string
	key     string
	secrets []byte
	// write has the parts that are not in the store yet.
	write []parts.Part
}

// noSecrets is the merge patch of a definition without secrets.
const noSecrets = "{}"

// share makes what all replicas of a definition share, and takes of the generations that are
// known what has stayed.
func share(text, secrets []byte, owner string, known []*shared) (*shared, error) {
	out := &shared{text: text, secrets: secrets}
	if err := out.takeText(owner, known); err != nil {
		return nil, err
	}
	same := func(k *shared) bool { return len(k.sealed) > 0 && bytes.Equal(secrets, k.secrets) }
	switch at := slices.IndexFunc(known, same); {
	case string(secrets) == noSecrets:
	case at >= 0:
		out.sealed, out.key = known[at].sealed, known[at].key
	default:
		made, key, err := parts.Secrets(owner, secrets)
		if err != nil {
			return nil, fmt.Errorf("seal the secrets of the replicas: %w", err)
		}
		out.sealed, out.key, out.write = namesOf(made), key.Secret(), append(out.write, made...)
	}
	return out, nil
}

// takeText finds or makes the parts of the text: those of a generation with the same one, or the
// shortest merge patch on what one begins with, or the text itself.
func (s *shared) takeText(owner string, known []*shared) error {
	add := func(text []byte) []string {
		made := parts.Text(owner, text)
		s.write = append(s.write, made...)
		return namesOf(made)
	}
	var on *shared
	var shortest []byte
	for _, k := range known {
		if bytes.Equal(s.text, k.text) {
			s.texts, s.first, s.base = k.texts, k.first, k.base
			return nil
		}
		patch, ok, err := oscar.MakePatch(k.base, s.text)
		if err != nil {
			return err
		}
		if ok && len(patch) <= len(s.text)/2 && (on == nil || len(patch) < len(shortest)) {
			on, shortest = k, patch
		}
	}
	if on == nil {
		s.first, s.base = add(s.text), s.text
		s.texts = s.first
		return nil
	}
	s.first, s.base = on.first, on.base
	s.texts = slices.Clone(on.first)
	if string(shortest) != noSecrets {
		s.texts = append(s.texts, add(shortest)...)
	}
	return nil
}

// names are those of all parts.
func (s *shared) names() []string {
	if s == nil {
		return nil
	}
	return slices.Concat(s.texts, s.sealed)
}

func namesOf(of []parts.Part) (names []string) {
	for _, p := range of {
		names = append(names, p.Name)
	}
	return names
}

// seal is the envelope beside parts, around their key and the secrets of one record that differ.
func (r *Renderer) seal(h seal.Header, key string, changes json.RawMessage, recipients ...seal.Recipient) (string, error) {
	payload, err := record.Encode(record.SealedChanges{Key: key, Changes: changes})
	if err != nil {
		return "", err
	}
	return r.cp.sealer.Seal(h, payload, recipients...)
}

// wholeUpTo is how many bytes, with secrets, the replicas have a copy each of: with so many a create
// still writes 4 KiB for a member. A part costs every
// syncer a read before its vote, and a name of 64 bytes and more in every record.
const wholeUpTo = 1600

// getsParts says whether a replica there is sent what it shares in parts: its syncer reads them, or
// there is no other way.
func (r *Renderer) getsParts(cluster string) bool {
	return r.shared != nil && (r.readsParts[cluster] || r.large)
}

// share makes what the replicas share, when every instance and a syncer among them reads parts,
// and when it is large.
func (r *Renderer) share() error {
	if !r.mayShare || len(r.readsParts) == 0 && !r.large {
		return nil
	}
	service, secrets := r.template.Common()
	text, err := service.MarshalJSON()
	if err != nil {
		return fmt.Errorf("write what the replicas share: %w", err)
	}
	if len(text)+len(secrets) <= wholeUpTo {
		return nil
	}
	r.shared, err = share(text, secrets, r.fed.Owner, r.known)
	return err
}

// checkSecrets refuses secrets that only parts hold while a syncer that is connected reads none. One
// that is away is sent parts.
func (r *Renderer) checkSecrets(members []record.Member) error {
	if !r.large {
		return nil
	}
	refuse := func(why string) error {
		return &fault.Error{Code: fault.CodeTooLarge, Message: fmt.Sprintf("nothing was changed: the secrets have more than %d bytes, and %s", maxSecrets, why)}
	}
	if !r.mayShare {
		return refuse("so many are written once the upgrade is finished (oscarfed finish-upgrade)")
	}
	for _, m := range members {
		if m.Replica() && r.alive[m.ClusterID] && !r.readsParts[m.ClusterID] {
			return refuse(fmt.Sprintf("the syncer of cluster %q does not read so many: it is of an older version, or its etcd has no gateway", m.ClusterID))
		}
	}
	return nil
}

// maxSecrets is how many bytes of secrets an envelope holds beside the token of a replica, or a key.
const maxSecrets = seal.MaxPayload - 200

// Parts are the names of the parts that the replicas share, and all that are to be written before
// the records that name them.
func (r *Renderer) Parts() (names []string, staged []gate.Staged) {
	write := r.own
	if r.shared != nil {
		write = append(slices.Clone(r.shared.write), r.own...)
	}
	for _, p := range write {
		staged = append(staged, gate.Staged{Key: record.PartKey(r.fed.UID, p.Name), Rec: p.Rec})
	}
	return r.shared.names(), staged
}

// history is the service as it was submitted, in place of the whole by what differs where the
// replicas share it.
func (r *Renderer) history(h *record.History, raw []byte) error {
	if r.shared != nil {
		changes, ok, err := oscar.MakePatch(r.shared.text, raw)
		if err != nil {
			return err
		}
		if ok {
			h.Parts, h.Changes = r.shared.texts, changes
			return nil
		}
	}
	h.Service = raw
	return nil
}

// secrets are those of the submitted service, sealed to the control plane alone: what differs from
// those that its replicas share or, when no envelope holds that, all in parts of their own.
func (r *Renderer) secrets(patch []byte) (record.Secrets, error) {
	out := record.Secrets{V: record.Version, Owner: r.fed.Owner, Generation: r.fed.Generation}
	h := seal.Header{Purpose: seal.PurposeDefinition, UID: r.fed.UID, Generation: r.fed.Generation}
	changes, key := json.RawMessage(patch), ""
	if r.shared != nil && len(r.shared.sealed) > 0 {
		differ, ok, err := oscar.MakePatch(r.shared.secrets, patch)
		if err != nil {
			return out, err
		}
		if ok {
			changes, key, out.Parts = differ, r.shared.key, r.shared.sealed
		}
	}
	if r.mayShare && len(changes) > maxSecrets {
		own, made, err := parts.Secrets(r.fed.Owner, patch)
		if err != nil {
			return out, err
		}
		r.own = own
		changes, key, out.Parts = json.RawMessage(noSecrets), made.Secret(), namesOf(own)
	}
	var err error
	if len(out.Parts) == 0 {
		out.Sealed, err = r.cp.sealer.Seal(h, patch, r.cp.sealer.Own())
		return out, err
	}
	h.Purpose = seal.PurposeDefinitionChanges
	out.Sealed, err = r.seal(h, key, changes, r.cp.sealer.Own())
	return out, err
}

// submitted is the service of a generation as it was submitted, without secrets, and what it
// shares with its replicas; nil for one of its own.
func submitted(ctx context.Context, get parts.Get, federation string, h *record.History) (*oscar.Service, *shared, error) {
	raw, known := []byte(h.Service), (*shared)(nil)
	if len(h.Parts) > 0 {
		set, err := parts.Read(ctx, get, federation, h.Parts)
		if err != nil {
			return nil, nil, err
		}
		known = &shared{texts: h.Parts, first: set.First, base: set.Texts[0], text: set.Texts[0]}
		if len(set.Texts) > 1 {
			if known.text, err = oscar.MergePatch(set.Texts[0], set.Texts[1:]...); err != nil {
				return nil, nil, err
			}
		}
		if raw, err = oscar.MergePatch(known.text, h.Changes); err != nil {
			return nil, nil, err
		}
	}
	s, violations := oscar.ParseService(raw)
	if len(violations) > 0 {
		return nil, nil, fmt.Errorf("%s: %s", violations[0].Path, violations[0].Message)
	}
	return s, known, nil
}

// openSecrets is the merge patch with the secrets of a generation. Those that its replicas share
// are entered into known, which may be nil.
func (c *Controller) openSecrets(ctx context.Context, f *record.Federation, sealed *record.Secrets, known *shared) ([]byte, error) {
	h := seal.Header{Purpose: seal.PurposeDefinition, UID: f.UID, Generation: f.Generation}
	if len(sealed.Parts) == 0 {
		return c.identity.Open(sealed.Sealed, h, c.cfg.Now())
	}
	h.Purpose = seal.PurposeDefinitionChanges
	payload, err := c.identity.Open(sealed.Sealed, h, c.cfg.Now())
	if err != nil {
		return nil, err
	}
	own, err := parts.Changes(payload)
	if err != nil {
		return nil, err
	}
	common, err := parts.OpenSecrets(ctx, c.store.Get, f.UID, sealed.Parts, own.Key, c.cfg.Now())
	if err != nil {
		return nil, err
	}
	if known != nil {
		known.sealed, known.key, known.secrets = sealed.Parts, own.Key, common
	}
	return oscar.MergePatch(common, own.Changes)
}

// OpenSpec is what a replica's OSCAR is sent, without secrets, and the merge patch with these.
func (c *Controller) OpenSpec(ctx context.Context, cluster string, d *record.Desired, spec *record.Spec) (service, patch []byte, err error) {
	h := seal.Header{Purpose: seal.PurposeSpec, Cluster: cluster, UID: d.UID, Generation: d.Generation}
	if len(spec.Parts) == 0 {
		patch, err = c.identity.Open(spec.Sealed, h, c.cfg.Now())
		return spec.Service, patch, err
	}
	h.Purpose = seal.PurposeSpecChanges
	payload, err := c.identity.Open(spec.Sealed, h, c.cfg.Now())
	if err != nil {
		return nil, nil, err
	}
	set, err := parts.Read(ctx, c.store.Get, d.Federation, spec.Parts)
	if err != nil {
		return nil, nil, err
	}
	return set.Spec(spec.Changes, payload, c.cfg.Now())
}
