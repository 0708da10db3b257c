package clusters

import (
	"context"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

// Users keeps etcd's users as the registrations of the clusters are.
type Users interface {
	// KeepUsers is access.Admin.Keep, with the rights for it.
	KeepUsers(ctx context.Context, want func(context.Context) (access.Wanted, error)) error
}

// keepUsersInterval is the longest time between two looks at etcd's users, in which
// nothing that is known here has changed.
const keepUsersInterval = time.Hour

// decideStanding is pure: what a life of a cluster may do in etcd, of which reg is
// the registration under its id and told what its syncer is told; nil for none.
//
//	registered ──► admitted, unless it was revoked
//	removed, with orders that it has not done ──► retired, for 90 days
//	removed, nothing left to do; another registration under its id ──► gone
func decideStanding(life access.Life, reg *record.Cluster, told *record.DesiredCluster) access.Standing {
	switch {
	case reg != nil && reg.UID == life.UID && reg.Revoked == nil:
		return access.Admitted
	case reg == nil && told != nil && told.UID == life.UID && told.State == record.ClusterRemoved && told.Revoked == nil:
		return access.Retired
	}
	return access.Gone
}

// keepUsers gives etcd's users the rights that follow from the registrations,
// whenever those have changed, and now and then all the same. Any instance does it,
// and doing it twice is harmless: what two did at the same moment by what they knew,
// the later of them corrects when it has seen the change.
func (c *Controller) keepUsers(ctx context.Context) {
	var kept, now map[access.Life]access.Standing
	seen := -1
	wait := 5 * time.Second
	var due time.Time // of a look without a change
	for ctx.Err() == nil {
		changed := c.state.Watch()
		if n := c.registrations(); n != seen {
			seen, now = n, c.standings()
		}
		if kept == nil || !maps.Equal(now, kept) {
			if err := c.keepUsersOnce(ctx); err != nil && ctx.Err() == nil {
				c.cfg.Logger.Warn("etcd's users are not as the registrations say; it is tried again", "error", err)
				kept, due, changed = nil, time.Now().Add(wait/2+rand.N(wait/2)), nil //nolint:gosec // spreads load, guards nothing
				wait = min(2*wait, 5*time.Minute)
			} else {
				kept, wait = now, 5*time.Second
				due = time.Now().Add(keepUsersInterval/2 + rand.N(keepUsersInterval/2)) //nolint:gosec // as above
			}
		}
		timer := time.NewTimer(time.Until(due))
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
			kept = nil
		}
		timer.Stop()
	}
}

// registrations counts the changes that standings depend on.
func (c *Controller) registrations() (n int) {
	c.state.Read(func(v *view.View) { n = v.Registrations })
	return n
}

// standings are those of every cluster that is known here.
func (c *Controller) standings() map[access.Life]access.Standing {
	out := map[access.Life]access.Standing{}
	c.state.Read(func(v *view.View) {
		for id, reg := range v.Clusters.All() {
			life := access.Life{Cluster: id, UID: reg.Rec.UID}
			out[life] = decideStanding(life, reg.Rec, nil)
		}
		for id, n := range v.Nodes.All() {
			if told := n.DesiredSelf.Rec; told != nil {
				life := access.Life{Cluster: id, UID: told.UID}
				if standing := decideStanding(life, v.Clusters.Get(id).Rec, told); standing != access.Gone {
					out[life] = standing
				}
			}
		}
	})
	return out
}

func (c *Controller) keepUsersOnce(ctx context.Context) error {
	return c.cfg.Users.KeepUsers(ctx, func(ctx context.Context) (access.Wanted, error) {
		// As new as the users that were just listed, or newer.
		if err := c.gate.Fresh(ctx); err != nil {
			return access.Wanted{}, err
		}
		want := access.Wanted{Standing: func(life access.Life) (standing access.Standing) {
			c.state.Read(func(v *view.View) {
				standing = decideStanding(life, v.Clusters.Get(life.Cluster).Rec, v.Nodes.Get(life.Cluster).DesiredSelf.Rec)
			})
			return standing
		}}
		c.state.Read(func(v *view.View) {
			for id, reg := range v.Clusters.All() {
				if reg.Rec.Joined != nil && reg.Rec.Revoked == nil {
					want.Needed = append(want.Needed, access.Life{Cluster: id, UID: reg.Rec.UID})
				}
			}
		})
		return want, nil
	})
}
