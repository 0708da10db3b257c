package syncer_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// upgraded is an OSCAR whose version changes.
type upgraded struct {
	syncer.OSCAR
	version atomic.Pointer[string]
}

func (u *upgraded) Info(ctx context.Context) (manager.Info, error) {
	info, err := u.OSCAR.Info(ctx)
	if v := u.version.Load(); v != nil {
		info.Version = *v
	}
	return info, err
}

// TestAnUpgradeOfOSCARIsToldBeforeTheNextComparison: what it was is not shown for as long
// as all services rest, and no vote is cast on it.
func TestAnUpgradeOfOSCARIsToldBeforeTheNextComparison(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		u := &upgraded{OSCAR: r.oscar("syncer")}
		u.version.Store(new("v3.6.1"))
		r.start(func(c *syncer.Config) { c.OSCAR, c.Resync = u, never })
		r.eventually("the old version is told", func() bool {
			c := r.cluster()
			return c != nil && c.OscarVersion == "v3.6.1" && c.Reason == record.ReasonUnsupportedVersion
		})
		refused := newReplica("early")
		r.want(refused, record.IntentPrepare)
		r.await(refused, record.PhaseRefused, because(record.ReasonUnsupportedVersion))

		u.version.Store(new("v4.1.2"))
		voted := newReplica("late")
		r.want(voted, record.IntentPrepare)
		r.await(voted, record.PhasePrepared)
		r.eventually("the new version is told", func() bool {
			c := r.cluster()
			return c.OscarVersion == "v4.1.2" && c.Reason == ""
		})
	})
}
