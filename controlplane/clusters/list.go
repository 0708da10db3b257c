package clusters

import (
	"context"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

// List lists what is registered, by id. Each page is as the store was at the revision of the first
// one, but for the streams of the clusters and the progress of removals, which are of now. The
// phases of the query are the states of clusters.
func (c *Controller) List(ctx context.Context, caller identity.Caller, q listing.Query) (*listing.Page[*Cluster], error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	var revision int64
	var epoch string
	c.state.Read(func(v *view.View) { revision, epoch = v.Revision, v.Epoch() })
	at, err := c.tokens.Begin(caller, &q, 1, revision, epoch)
	if err != nil {
		return nil, err
	}
	s := &clusterScan{c: c, caller: caller, q: q, reader: c.state.At(at.Revision), after: at.After[0]}
	list := listing.List[*Cluster, *Cluster]{
		Tokens: c.tokens, Next: s.next, Show: showAll, AtOnce: clustersAtOnce, Position: func(c *Cluster) []string { return []string{c.ClusterID} },
	}
	return list.Page(ctx, caller, &q, at)
}

// showAll calls fn with clusters as they were found.
func showAll(_ context.Context, found []*Cluster, fn func(*Cluster) error) error {
	for _, one := range found {
		if err := fn(one); err != nil {
			return err
		}
	}
	return nil
}

// clusterScan goes through the clusters of a query.
type clusterScan struct {
	c      *Controller
	caller identity.Caller
	q      listing.Query
	reader *view.PastReader
	after  string
}

// clustersAtOnce is how many are rendered while the state is locked.
const clustersAtOnce = 128

// next shows the next clusters, most of them at most, and says whether the list ends there.
func (s *clusterScan) next(ctx context.Context, most int) (found []*Cluster, end bool, err error) {
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	left := clustersAtOnce
	err = s.reader.Read(func(p *view.Past) {
		for id := range p.Clusters(s.after) {
			if left == 0 || len(found) == most {
				return
			}
			left--
			s.after = id
			if one := s.c.Show(p, id, s.caller); one != nil && s.q.MatchesLabels(one.Labels) && s.q.MatchesPhase(one.State) &&
				(s.q.ClusterID == "" || s.q.ClusterID == id) {
				found = append(found, one)
			}
		}
		end = true
	})
	return found, end, err
}

// Show is a cluster as it was, for a caller; nil when it was not registered.
func (c *Controller) Show(p *view.Past, id string, caller identity.Caller) *Cluster {
	v := p.ViewOfCluster(id)
	reg, ok := v.Clusters.Lookup(id)
	if !ok {
		return nil
	}
	out := showCluster(v, reg, c.streamOf)
	if reg.Rec.Removal != nil {
		out.Removal = showRemoval(p.Now, reg.Rec)
	}
	out = out.shownTo(caller)
	return &out
}

// ShowNow is a cluster in a view, for a caller; nil when it is not registered.
func (c *Controller) ShowNow(v *view.View, id string, caller identity.Caller) *Cluster {
	reg, ok := v.Clusters.Lookup(id)
	if !ok {
		return nil
	}
	out := showCluster(v, reg, c.streamOf).shownTo(caller)
	return &out
}
