package stats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

// Config of a Controller.
type Config struct {
	State *view.State
	Gate  *gate.Gate
	Now   func() time.Time
}

// Controller counts jobs for callers.
type Controller struct {
	cfg Config

	mu    sync.Mutex
	all   series
	owned map[string]*series
	// ended is the end of the last step.
	ended time.Time
}

// New makes a Controller, which observes the state. It starts nothing.
func New(cfg Config) *Controller {
	c := &Controller{cfg: cfg, owned: map[string]*series{}}
	cfg.State.Observe(c.observe)
	return c
}

// Run ends a step of each series every ten seconds, until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.cfg.State.Read(c.endStep)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// observe notes the jobs that have another state.
func (c *Controller) observe(_ *view.View, news *view.Changes) {
	moves := news.JobMoves()
	if len(moves) == 0 {
		return
	}
	now := c.cfg.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range moves {
		c.all.take(m, now)
		if s := c.seriesOf(m.Job.Owner); s != nil {
			s.take(m, now)
		}
	}
}

// seriesOf is the series of an owner; nil when too many have one. It needs mu.
func (c *Controller) seriesOf(owner string) *series {
	s := c.owned[owner]
	if s == nil && len(c.owned) < maxOwners {
		s = &series{}
		c.owned[owner] = s
	}
	return s
}

func (c *Controller) endStep(v *view.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = c.cfg.Now()
	c.all.end(v.Jobs.Tally)
	for owner, t := range v.Jobs.OwnerTally.All() {
		if c.owned[owner] == nil && unfinished(t) {
			c.seriesOf(owner)
		}
	}
	for owner, s := range c.owned {
		if s.end(v.Jobs.OwnerTally.Get(owner)); s.idle() {
			delete(c.owned, owner)
		}
	}
}

func unfinished(t view.Tally) bool {
	for state := range t.States() {
		if !state.Ended() {
			return true
		}
	}
	return false
}

// Stats counts the jobs of one federation, by its uid or its group_id; without one those of the
// caller's federations or, for the administrator, all.
func (c *Controller) Stats(ctx context.Context, caller identity.Caller, federation string) (out *v1.Stats, err error) {
	if err := c.cfg.Gate.Fresh(ctx); err != nil {
		return nil, err
	}
	c.cfg.State.Read(func(v *view.View) {
		switch {
		case federation != "":
			out, err = c.ofFederation(v, caller, federation)
		case caller.Administrator:
			out = c.show(v, v.Jobs.Tally, clusterOf)
			out.Series = c.series(nil)
		default:
			out = c.show(v, v.Jobs.OwnerTally.Get(caller.Subject), clusterOf)
			out.Series = c.series(&caller.Subject)
		}
	})
	return out, err
}

func (c *Controller) ofFederation(v *view.View, caller identity.Caller, name string) (*v1.Stats, error) {
	f := v.FederationNamed(caller, name).Rec
	if f == nil {
		return nil, fault.NotFound(fmt.Sprintf("there is no federation %q", name))
	}
	return c.show(v, v.Jobs.FederationTally.Get(f.UID), func(member string) string { return member }), nil
}

// series is that of an owner, or of all for nil; nil when there is none.
func (c *Controller) series(owner *string) *v1.JobSeries {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.all
	if owner != nil {
		s = c.owned[*owner]
	}
	if s == nil || s.filled == 0 {
		return nil
	}
	return s.wire(c.ended)
}

// clusterOf is the cluster of a member: of cluster/service, or of the URL of an endpoint.
func clusterOf(member string) string {
	if strings.Contains(member, "://") {
		return "endpoint"
	}
	cluster, _, _ := strings.Cut(member, "/")
	return cluster
}

// show is a tally on the wire, whose edges end at what end makes of members.
func (c *Controller) show(v *view.View, t view.Tally, end func(string) string) *v1.Stats {
	out := &v1.Stats{At: v1.Time{Time: c.cfg.Now()}, Revision: v.Revision, Jobs: map[string]int{}, Clusters: []v1.ClusterJobs{}, Edges: []v1.JobEdge{}}
	for state, n := range t.States() {
		out.Jobs[string(state)] = n
	}
	for cluster := range t.Clusters() {
		one := v1.ClusterJobs{ClusterID: cluster, Jobs: map[string]int{}}
		for state, n := range t.At(cluster) {
			one.Jobs[string(state)] = n
		}
		out.Clusters = append(out.Clusters, one)
	}
	slices.SortFunc(out.Clusters, func(a, b v1.ClusterJobs) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	sums := map[view.Edge]int{}
	for edge, n := range t.Edges() {
		sums[view.Edge{From: end(edge.From), To: end(edge.To)}] += n
	}
	for edge, n := range sums {
		out.Edges = append(out.Edges, v1.JobEdge{From: edge.From, To: edge.To, Jobs: n})
	}
	slices.SortFunc(out.Edges, func(a, b v1.JobEdge) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return out
}
