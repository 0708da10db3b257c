package syncer_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestTwoSyncers: the second one of a cluster waits, and takes over when the
// first one has gone.
func TestTwoSyncers(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
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
	})
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

// TestSyncerPausedBeforeItsDelete: a syncer falls asleep when it has read
// everything and is about to send its DELETE. Meanwhile its session ends, another
// one deletes the service, and a new life is made under the name. It wakes up
// and touches nothing.
func TestSyncerPausedBeforeItsDelete(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		inner, machine := r.oscar("syncer"), r.freezable()
		stop := r.start(func(c *syncer.Config) {
			c.Store, c.Instance = machine.store, "sleeper"
			c.OSCAR = &proxy{OSCAR: inner, get: func(ctx context.Context, name string) (*manager.Service, error) {
				service, err := inner.Get(ctx, name)
				if err == nil && !service.Storage {
					machine.arm() // it is detached: its DELETE is next, after one more read
				}
				return service, err
			}}
		})
		p := newReplica("grayify")
		r.makeReady(p)
		sleeper := r.sessionRevision()
		r.want(p, record.IntentDelete)
		<-machine.asleep
		defer machine.wake()

		r.start(func(c *syncer.Config) { c.Instance = "successor" })
		r.await(p, record.PhaseDeleted)
		if r.sessionRevision() == sleeper {
			t.Fatal("the sleeper still has its session")
		}
		r.forget(p)
		again := newReplica("grayify")
		r.makeReady(again)
		calls := len(r.calls("grayify"))

		machine.wake()
		stop()
		r.resynced()
		r.inPlace(again)
		if got := r.calls("grayify"); len(got) != calls {
			t.Errorf("the sleeper wrote %v", got[calls:])
		}
	})
}

// TestSleeperWithoutItsSessionWritesNothing: even if what it planned still holds.
func TestSleeperWithoutItsSessionWritesNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		gate, inner, log := newGate(), r.oscar("syncer"), &await.Output{}
		r.start(func(c *syncer.Config) {
			c.Logger = slog.New(slog.NewTextHandler(log, nil))
			c.OSCAR = &proxy{OSCAR: inner, get: func(ctx context.Context, name string) (*manager.Service, error) {
				gate.pass()
				return inner.Get(ctx, name)
			}}
		})
		p := newReplica("grayify")
		r.makeReady(p)
		gate.arm()
		r.want(p, record.IntentDelete)
		<-gate.reached
		r.revokeSession()
		taken, err := r.store.OpenSession(t.Context(), store.SessionConfig{Key: record.SessionKey(clusterID), Record: record.Session{V: 1}})
		if err != nil {
			t.Fatal(err)
		}
		close(gate.opened)
		r.eventually("it has noticed", func() bool { return strings.Contains(log.String(), "session ended") })
		// It now waits for the session. Once it has it, it does its work.
		r.equalCalls(p.name, "create")
		if err := taken.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.await(p, record.PhaseDeleted)
	})
}

// revokeSession ends the session as etcd does when it was not renewed.
func (r *rig) revokeSession() {
	r.t.Helper()
	r.remove(record.SessionKey(clusterID))
}

// TestLostSessionStopsReports: what a syncer without its session has seen is not
// written.
func TestLostSessionStopsReports(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		gate := newGate()
		inner := r.oscar("syncer")
		r.start(func(c *syncer.Config) {
			c.OSCAR = &proxy{OSCAR: inner, get: func(ctx context.Context, name string) (*manager.Service, error) {
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
		r.revokeSession()
		close(gate.opened)
		r.await(q, record.PhaseReady)
		if r.sessionRevision() == before {
			t.Error("a report without a session")
		}
	})
}

// TestVoteWithoutASessionIsNotWritten: a syncer that has lost its session while
// it checked does not overwrite the vote of its successor.
func TestVoteWithoutASessionIsNotWritten(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		gate, inner, log := newGate(), r.oscar("syncer"), &await.Output{}
		r.sim.PutBucket("grayify")
		r.start(func(c *syncer.Config) {
			c.Logger = slog.New(slog.NewTextHandler(log, nil))
			c.OSCAR = &proxy{OSCAR: inner, buckets: func(ctx context.Context) ([]manager.Bucket, error) {
				buckets, err := inner.Buckets(ctx)
				gate.pass()
				return buckets, err
			}}
		})
		r.eventually("it is known which OSCAR it is", func() bool { c := r.cluster(); return c != nil && c.OscarID != "" })
		gate.arm()
		p := newReplica("grayify")
		r.want(p, record.IntentPrepare)
		<-gate.reached // with a no in its hands
		r.revokeSession()
		r.deleteBucket("grayify")
		r.start(func(c *syncer.Config) { c.Instance = "successor" })
		r.await(p, record.PhasePrepared)
		close(gate.opened)
		r.eventually("it has noticed", func() bool { return strings.Contains(log.String(), "session ended") })
		r.past(p.name, 1, func(o *record.Observed) {
			if o.Phase != record.PhasePrepared {
				t.Errorf("the vote of a syncer without a session: %+v", o)
			}
		})
	})
}

// TestEtcdAway: without etcd nothing is written to OSCAR, whatever is planned.
func TestEtcdAway(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		gate := newGate()
		inner := r.oscar("syncer")
		r.start(func(c *syncer.Config) {
			c.Resync = 5 * time.Second // in the time of a session
			c.OSCAR = &proxy{OSCAR: inner, get: func(ctx context.Context, name string) (*manager.Service, error) {
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
		back := r.etcdGone()
		close(gate.opened)
		lists := r.sim.Calls()["list"]
		r.eventually("OSCAR is still read", func() bool { return r.sim.Calls()["list"] > lists+3 })
		if calls := r.calls(q.name); len(calls) != 0 {
			t.Errorf("written without etcd: %v", calls)
		}
		back()
		r.await(q, record.PhaseReady)
	})
}

// TestRestartedSyncerTakesUpItsWork: stopped at any moment, the next process
// finishes what was asked.
func TestRestartedSyncerTakesUpItsWork(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
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
	})
}
