package syncer_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/session"
	"github.com/oscarfed/oscarfed/test/await"
)

func (r *rig) registerAs(uid string) {
	r.t.Helper()
	r.put(record.DesiredClusterKey(clusterID), record.DesiredCluster{V: 1, ClusterID: clusterID, UID: uid, State: record.ClusterActive})
}

func (r *rig) hasSession() bool {
	r.t.Helper()
	_, err := r.store.Get(r.t.Context(), record.SessionKey(clusterID))
	return err == nil
}

// TestASyncerWaitsForItsRegistration: before there is one it holds no session and
// writes nothing, and it stops when the registration goes.
func TestASyncerWaitsForItsRegistration(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.remove(record.DesiredClusterKey(clusterID))
		p := newReplica("grayify")
		r.want(p, record.IntentApply)
		r.start()
		r.registerAs("first")
		r.await(p, record.PhaseReady)
		r.remove(record.DesiredClusterKey(clusterID))
		r.eventually("it gives its session back", func() bool { return !r.hasSession() })
		// What happens on the cluster now is nobody's business.
		if err := r.removeService(p.name); err != nil {
			t.Fatal(err)
		}
		before := len(r.calls(p.name))
		r.registerAs("first")
		r.eventually("it works again", r.hasSession)
		r.eventually("it repairs", func() bool { return len(r.calls(p.name)) > before })
	})
}

// TestAnotherRegistrationIsNotServed, whoever asks, until the operator says so.
func TestAnotherRegistrationIsNotServed(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		file := session.MemoryFile(filepath.Join(t.TempDir(), "cluster-uid"))
		remembering := func(c *syncer.Config) { c.Memory = file }
		stop := r.start(remembering)
		p := newReplica("grayify")
		r.makeReady(p)
		r.registerAs("second")
		// An order of the new registration, for the very service that stands here.
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseDeleted })
		r.eventually("it gives its session back", func() bool { return !r.hasSession() })
		stop()
		stop = r.start(remembering) // and it remembers
		r.remove(record.ObservedClusterKey(clusterID))
		r.eventually("it says why it waits", func() bool {
			c := r.cluster()
			return c != nil && c.Reason == record.ReasonOtherRegistration && c.Recipient == ""
		})
		if r.hasSession() {
			t.Error("it has taken the session of another cluster")
		}
		r.equalCalls(p.name, "create")
		if o := r.observed(p.name); o == nil || o.Phase != record.PhaseReady {
			t.Errorf("it has reported %+v", o)
		}
		stop()
		r.start(remembering, func(c *syncer.Config) { c.AcceptClusterUID = "third" })
		stopped := len(r.calls(p.name))
		r.registerAs("third")
		r.await(p, record.PhaseDeleted)
		if stopped != 1 {
			t.Errorf("calls %v", r.calls(p.name))
		}
		if uid, err := file.Load(); err != nil || uid != "third" {
			t.Errorf("remembered %q, %v", uid, err)
		}
	})
}

// TestARegistrationWithoutAUidIsNotRemembered: a syncer that took it could not read its
// own memory at the next start, and served nobody from then on.
func TestARegistrationWithoutAUidIsNotRemembered(t *testing.T) {
	for name, first := range map[string]string{"none is known": "", "another is known": "first"} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				file := session.MemoryFile(filepath.Join(t.TempDir(), "cluster-uid"))
				if first != "" {
					if err := file.Save(first); err != nil {
						t.Fatal(err)
					}
				}
				r.registerAs("")
				r.start(func(c *syncer.Config) { c.Memory = file })
				for _, uid := range []string{"", "two words", "two\nlines", strings.Repeat("x", 4096)} {
					r.registerAs(uid)
				}
				r.registerAs("first")
				r.eventually("it serves its registration", r.hasSession)
				if uid, err := file.Load(); err != nil || uid != "first" {
					t.Errorf("remembered %q, %v", uid, err)
				}
			})
		})
	}
}
