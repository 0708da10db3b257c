package syncer_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestWithoutItsLeaseASyncerDoesNotSpin: it tries what it may not write with growing
// pauses, and its cluster says why.
func TestWithoutItsLeaseASyncerDoesNotSpin(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		k, log := &kubernetes{}, &await.Output{}
		k.silent.Store(true)
		r.start(func(c *syncer.Config) {
			c.Kube = k
			c.Resync = never
			c.Logger = slog.New(slog.NewTextHandler(log, nil))
		})
		p := newReplica("grayify")
		r.want(p, record.IntentApply)
		r.eventually("the pause grows", func() bool { return strings.Contains(log.String(), "pause=1.6s") })
		r.eventually("the cluster says why", func() bool {
			c := r.cluster()
			return c != nil && c.Reason == record.ReasonNoLease && c.Away && strings.Contains(c.Message, "oscar-syncer")
		})
		k.silent.Store(false)
		r.await(p, record.PhaseReady)
		r.eventually("the cluster has no reason any more", func() bool { c := r.cluster(); return c.Reason == "" && !c.Away && c.Message == "" })
	})
}

// TestASyncerThatCannotHaveItsLeaseSaysWhy: it has no session, and without one nobody
// knew of it.
func TestASyncerThatCannotHaveItsLeaseSaysWhy(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		k := &kubernetes{withheld: make(chan struct{})}
		r.start(func(c *syncer.Config) { c.Kube = k })
		r.eventually("the cluster says why", func() bool {
			c := r.cluster()
			return c != nil && c.Reason == record.ReasonNoLease && strings.Contains(c.Message, "namespace")
		})
		if _, err := r.store.Get(t.Context(), record.SessionKey(clusterID)); err == nil {
			t.Error("it has a session without the Lease")
		}
		close(k.withheld)
		p := newReplica("grayify")
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		r.eventually("the cluster has no reason any more", func() bool { return r.cluster().Reason == "" })
	})
}
