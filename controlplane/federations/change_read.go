package federations

import (
	"context"
	"errors"
	"fmt"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// WithSecrets is the present definition, with its secrets.
func (c *Controller) WithSecrets(ctx context.Context, f *record.Federation) (*oscar.Service, error) {
	s, _, err := c.current(ctx, f)
	return s, err
}

// current is the present definition, with its secrets, and what its replicas share of it; nil
// when they share nothing.
func (c *Controller) current(ctx context.Context, f *record.Federation) (*oscar.Service, *shared, error) {
	kv, err := c.store.Get(ctx, record.HistoryKey(f.UID, f.Generation))
	if err != nil {
		return nil, nil, err
	}
	g, known, err := c.generationOf(ctx, kv)
	if err != nil {
		return nil, nil, err
	}
	if kv, err = c.store.Get(ctx, record.SecretsKey(f.UID, f.Generation)); err != nil {
		return nil, nil, err
	}
	sealed, err := store.Decode[record.Secrets](kv)
	if err != nil {
		return nil, nil, err
	}
	patch, err := c.openSecrets(ctx, f, sealed, known)
	if err != nil {
		return nil, nil, fmt.Errorf("open the secrets of federation %s: %w", f.UID, err)
	}
	s, err := merge(g.Service, patch)
	return s, known, err
}

// alsoKnown is what the generations share whose parts a change may use: the present one, which
// known is of, and the older one that is to come back, if any. A generation that is in the store
// after the federation's record was read is there, with its parts, as long as that record is as it
// was, which the transaction of the change compares.
func (c *Controller) alsoKnown(ctx context.Context, f *record.Federation, back int64, known *shared) (out []*shared, err error) {
	if known != nil {
		out = append(out, known)
	}
	if back == 0 || back == f.Generation {
		return out, nil
	}
	kv, err := c.store.Get(ctx, record.HistoryKey(f.UID, back))
	var older *shared
	if err == nil {
		_, older, err = c.generationOf(ctx, kv)
	}
	switch {
	case errors.Is(err, store.ErrNotFound): // it is kept no more since the caller read it
		return out, nil
	case err == nil && older != nil:
		out = append(out, older)
	}
	return out, err
}

func merge(public *oscar.Service, patch []byte) (*oscar.Service, error) {
	doc, err := public.MarshalJSON()
	if err != nil {
		return nil, err
	}
	whole, err := oscar.MergePatch(doc, patch)
	if err != nil {
		return nil, err
	}
	s, violations := oscar.ParseService(whole)
	if len(violations) > 0 {
		return nil, fmt.Errorf("the service with its secrets cannot be read: %s: %s", violations[0].Path, violations[0].Message)
	}
	return s, nil
}

// validateChange is Validate for an existing federation: its own clusters accept it even when
// they take nothing new, and its group_id stays. stands is that of topology.Env.
func (c *Controller) validateChange(caller identity.Caller, s *oscar.Service, f *record.Federation, stands *oscar.Service) (*topology.Graph, int64, error) {
	if s.ClusterID == "" {
		s.ClusterID = f.Coordinator().ClusterID
	}
	fed := OfService(s)
	if fed.GroupID == "" {
		fed.GroupID = f.GroupID
	}
	clusters := c.clustersOf(s)
	for _, m := range f.Members {
		clusters = append(clusters, m.ClusterID)
	}
	return c.checked(caller, clusters, func(env topology.Env) (*topology.Graph, []oscar.Violation) {
		env.Stands = stands
		return checkChange(s, f, env)
	})
}

// checkChange is the graph of a changed federation, or what forbids it.
func checkChange(s *oscar.Service, f *record.Federation, env topology.Env) (*topology.Graph, []oscar.Violation) {
	lives := map[string]bool{}
	for _, m := range f.Members {
		lives[m.ClusterID+"/"+m.ServiceName] = true
	}
	refused := closed(env, f)
	g, violations := topology.FromService(s, env)
	if g != nil {
		for _, n := range g.Nodes {
			if v, ok := refused[n.Member.ClusterID]; ok && n.Replica() && !lives[n.Member.ClusterID+"/"+n.Member.ServiceName] {
				violations = append(violations, v)
			}
		}
	}
	if g != nil && g.GroupID != f.GroupID {
		violations = append(violations, oscar.Violation{Path: "federation.group_id", Rule: oscar.RuleUnique, Value: g.GroupID,
			Message: fmt.Sprintf("a federation keeps its group_id %q; create another one under the new name", f.GroupID)})
	}
	if len(violations) == 0 {
		if touched := touchedBy(f, g); touched > oscar.MaxReplicas {
			violations = append(violations, oscar.Violation{Path: "federation.members", Rule: oscar.RuleMaxMembers, Value: touched,
				Message: fmt.Sprintf("one change touches at most %d replicas, removed ones counted; make it in two", oscar.MaxReplicas)})
		}
	}
	return g, violations
}

// touchedBy counts the replicas that a change writes to, including removed ones.
func touchedBy(f *record.Federation, g *topology.Graph) int {
	n := 0
	d := topology.Diff(view.GraphOf(f), g)
	for _, nodes := range [][]topology.Node{d.Added, d.Removed, d.Kept, d.Changed} {
		for _, node := range nodes {
			if node.Replica() {
				n++
			}
		}
	}
	return n
}
