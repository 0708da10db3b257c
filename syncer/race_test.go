package syncer_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/oscar"
)

// TestTwoSyncers: the second one of a cluster waits, and takes over when the
// first one has gone.
func TestTwoSyncers(t *testing.T) {
	r := newRig(t, oscarsim.Config{BreakConcurrent: true, Latency: 5 * time.Millisecond})
	stop := r.start()
	first := newReplica("first")
	r.makeReady(first)
	holder := r.sessionRevision()
	r.start(func(c *syncer.Config) { c.Instance = "second" })
	second := newReplica("second")
	r.makeReady(second)
	if r.sessionRevision() != holder {
		t.Error("the session changed hands while its holder lives")
	}
	stop()
	third := newReplica("third")
	r.makeReady(third)
	if r.sessionRevision() == holder {
		t.Error("the session is still that of a syncer that has stopped")
	}
	for _, c := range r.sim.Log() {
		if c.Op == oscarsim.OpCreate && c.Status != 201 {
			t.Errorf("create of %s answered %d", c.Service, c.Status)
		}
	}
}

// sessionRevision identifies the session that is held now.
func (r *rig) sessionRevision() int64 {
	r.t.Helper()
	kv, err := r.store.Get(r.t.Context(), record.SessionKey(clusterID))
	if err != nil {
		r.t.Fatal(err)
	}
	return kv.CreateRevision
}

// TestSyncerPausedBeforeItsDelete: a syncer falls asleep between its plan and
// its DELETE. Meanwhile its session ends, another one deletes the service, and a
// new life is made under the name. It wakes up and touches nothing.
func TestSyncerPausedBeforeItsDelete(t *testing.T) {
	r := newRig(t, oscarsim.Config{})
	gate := newGate()
	sleeper := r.config()
	own := r.open(sleeper.SessionTTL)
	inner := sleeper.OSCAR
	sleeping := false
	stop := r.start(func(c *syncer.Config) {
		c.Store, c.Instance = own.store, "sleeper"
		c.OSCAR = &proxy{OSCAR: inner, get: func(ctx context.Context, name string) (*oscar.Service, error) {
			service, err := inner.Get(ctx, name)
			gate.pass()
			return service, err
		}}
	})
	p := newReplica("grayify")
	r.makeReady(p)

	gate.arm()
	r.want(p, record.IntentDelete)
	<-gate.reached
	sleeping = true
	defer func() {
		if sleeping {
			close(gate.opened)
		}
	}()
	// Its machine sleeps: it renews nothing, and its session ends.
	if err := r.revokeSession(); err != nil {
		t.Fatal(err)
	}
	r.start(func(c *syncer.Config) { c.Instance = "successor" })
	r.await(p, record.PhaseDeleted)
	r.forget(p)
	again := newReplica("grayify")
	r.makeReady(again)
	calls := len(r.calls("grayify"))

	close(gate.opened)
	sleeping = false
	r.resynced()
	stop()
	r.inPlace(again)
	if got := r.calls("grayify"); len(got) != calls {
		t.Errorf("the sleeper wrote %v", got[calls:])
	}
}

// other is a connection of its own to the same etcd.
type other struct{ store *store.Store }

func (r *rig) open(time.Duration) other {
	return other{storetest.Open(r.t, store.Config{Endpoints: []string{r.endpoint}, Logger: quiet(r.t)})}
}

// revokeSession ends the session as etcd does when it was not renewed.
func (r *rig) revokeSession() error {
	_, err := r.store.Update(r.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Delete(record.SessionKey(clusterID))
		return nil
	}})
	return err
}

// TestLostSessionStopsReports: what a syncer without its session has seen is not
// written.
func TestLostSessionStopsReports(t *testing.T) {
	r := newRig(t, oscarsim.Config{})
	gate := newGate()
	inner := r.config().OSCAR
	r.start(func(c *syncer.Config) {
		c.OSCAR = &proxy{OSCAR: inner, get: func(ctx context.Context, name string) (*oscar.Service, error) {
			gate.pass()
			return inner.Get(ctx, name)
		}}
	})
	p := newReplica("grayify")
	r.makeReady(p)
	before := r.sessionRevision()
	gate.arm()
	q := newReplica("other")
	r.want(q, record.IntentApply)
	<-gate.reached
	if err := r.revokeSession(); err != nil {
		t.Fatal(err)
	}
	close(gate.opened)
	r.await(q, record.PhaseReady)
	if r.sessionRevision() == before {
		t.Error("a report without a session")
	}
}

// TestEtcdAway: without etcd nothing is written to OSCAR, whatever is planned.
func TestEtcdAway(t *testing.T) {
	r := newRig(t, oscarsim.Config{})
	gate := newGate()
	inner := r.config().OSCAR
	cut := r.cutable()
	r.start(func(c *syncer.Config) {
		c.Store = cut.store
		c.OSCAR = &proxy{OSCAR: inner, get: func(ctx context.Context, name string) (*oscar.Service, error) {
			gate.pass()
			return inner.Get(ctx, name)
		}}
	})
	p := newReplica("grayify")
	r.makeReady(p)
	gate.arm()
	q := newReplica("other")
	r.want(q, record.IntentApply)
	<-gate.reached
	cut.away()
	close(gate.opened)
	lists := r.sim.Calls()["list"]
	r.eventually("OSCAR is still read", func() bool { return r.sim.Calls()["list"] > lists+3 })
	if calls := r.calls(q.name); len(calls) != 0 {
		t.Errorf("written without etcd: %v", calls)
	}
	cut.back()
	r.await(q, record.PhaseReady)
}

// TestRestartedSyncerTakesUpItsWork: stopped at any moment, the next process
// finishes what was asked.
func TestRestartedSyncerTakesUpItsWork(t *testing.T) {
	r := newRig(t, oscarsim.Config{Latency: 30 * time.Millisecond})
	p := newReplica("grayify")
	r.want(p, record.IntentPrepare)
	stop := r.start()
	r.await(p, record.PhasePrepared)
	r.want(p, record.IntentApply)
	for range 5 {
		stop()
		stop = r.start()
	}
	r.await(p, record.PhaseReady)
	r.inPlace(p)
	r.want(p, record.IntentDelete)
	for range 5 {
		stop()
		stop = r.start()
	}
	r.await(p, record.PhaseDeleted)
	if slices.Contains(r.sim.Services(), p.name) {
		t.Error("the service is still there")
	}
}
