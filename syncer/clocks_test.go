package syncer_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// restarting is an OSCAR whose door is closed to the first creates.
type restarting struct {
	syncer.OSCAR
	refusals atomic.Int64
}

func (o *restarting) Create(ctx context.Context, name string, body []byte, as manager.Bearer, timeout time.Duration) error {
	if o.refusals.Add(-1) >= 0 {
		return &manager.APIError{Op: manager.OpCreate, Service: name, Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	}
	return o.OSCAR.Create(ctx, name, body, as, timeout)
}

// TestASyncerThatIsAheadDoesNotGiveUpOnAShortOutage: by its own clock the deadline of the
// create has passed long ago. Its OSCAR is away for a moment, and back in time.
func TestASyncerThatIsAheadDoesNotGiveUpOnAShortOutage(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"ten minutes ahead": 10 * time.Minute, "five hours behind": -5 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start(func(c *syncer.Config) {
					o := &restarting{OSCAR: c.OSCAR}
					o.refusals.Store(5)
					c.OSCAR, c.Now = o, clock.Ahead(ahead)
				})
				p := newReplica("grayify")
				r.want(p, record.IntentPrepare)
				r.await(p, record.PhasePrepared)
				r.want(p, record.IntentApply, func(d *record.Desired) { d.DeadlineS = 60 })
				ready := r.await(p, record.PhaseReady)
				r.inPlace(p)
				r.neverSaid(p.name, ready.DesiredRevision, record.PhaseFailed)
			})
		})
	}
}

// neverSaid fails the test if the syncer has reported a phase since a revision.
func (r *rig) neverSaid(name string, since int64, phase record.Phase) {
	r.t.Helper()
	key := record.ObservedServiceKey(clusterID, name)
	err := r.store.History(r.t.Context(), key, since, r.mirror.Revision(), func(_ int64, events []store.Event) error {
		for _, ev := range events {
			if o, err := store.Decode[record.Observed](ev.KV); ev.Key == key && err == nil && o.Phase == phase {
				r.t.Errorf("it reported %s: %s", phase, o.Message)
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestASyncerThatIsAheadMakesTheServiceOfAUser: by its clock the owner's access token has
// expired two hours ago. It is as good as it was when it was given, a moment ago.
func TestASyncerThatIsAheadMakesTheServiceOfAUser(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r, p, i := newUser(t)
		r.start(func(c *syncer.Config) { c.Now = clock.Ahead(3 * time.Hour) })
		r.eventually("the syncer has a session", func() bool {
			_, err := r.store.Get(t.Context(), record.SessionKey(clusterID))
			return err == nil
		})
		sealed, err := seal.Seal(seal.Header{Purpose: "access_token", Cluster: clusterID, UID: "fed", Generation: 1, Expires: inAnHour()},
			[]byte(i.Token(alice, nil)), r.identity.Recipient())
		if err != nil {
			t.Fatal(err)
		}
		r.put(record.TokensKey(clusterID, "fed"), record.Tokens{V: 1, Generation: 1, Expires: record.At(inAnHour()), LifeS: 3600, Access: sealed})
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
	})
}
