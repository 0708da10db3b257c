package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Services lists every replica that the caller may see, as OSCAR shows a service:
// secrets empty, the service's own token in clear. A coordinator shows the
// federation as it was submitted.
func (c *ControlPlane) Services(ctx context.Context, caller identity.Caller) ([]*oscar.Service, error) {
	if err := c.fresh(ctx); err != nil {
		return nil, err
	}
	var places []place
	c.state.read(func() {
		for uid, f := range c.state.federations {
			if f.rec.Phase == record.PhaseDeleting || f.rec.Phase.Result() || !caller.MayRead(f.rec.Owner, f.rec.Visibility, f.rec.AllowedUsers) {
				continue
			}
			for i, m := range f.rec.Members {
				if m.Replica() {
					places = append(places, place{uid: uid, member: i, rec: f.rec, rev: f.rev})
				}
			}
		}
	})
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.at().ServiceName, b.at().ServiceName), cmp.Compare(a.at().ClusterID, b.at().ClusterID))
	})
	out := []*oscar.Service{}
	submitted := map[string]*oscar.Service{}
	for _, p := range places {
		s := submitted[p.uid]
		if s == nil {
			var err error
			if s, err = c.submitted(ctx, p.rec); err != nil {
				if errors.Is(err, store.ErrNotFound) {
					continue // deleted between the two reads
				}
				return nil, crossing(err)
			}
			submitted[p.uid] = s
		}
		out = append(out, c.shown(s, p))
	}
	return out, nil
}

// Service shows one replica as OSCAR shows a service, with the revision of its
// federation's record.
func (c *ControlPlane) Service(ctx context.Context, caller identity.Caller, name, clusterID string) (*oscar.Service, int64, error) {
	if err := c.fresh(ctx); err != nil {
		return nil, 0, err
	}
	p, err := c.find(caller, name, clusterID)
	if err != nil {
		return nil, 0, err
	}
	absent := notFound(fmt.Sprintf("there is no service %q", name))
	if p.rec.Phase.Result() {
		return nil, 0, absent
	}
	s, err := c.submitted(ctx, p.rec)
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0, absent
	}
	if err != nil {
		return nil, 0, crossing(err)
	}
	return c.shown(s, p), p.rev, nil
}

// submitted reads the service that the present generation was submitted as.
func (c *ControlPlane) submitted(ctx context.Context, f *record.Federation) (*oscar.Service, error) {
	kv, err := c.store.Get(ctx, record.HistoryKey(f.UID, f.Generation))
	if err != nil {
		return nil, err
	}
	h, err := store.Decode[record.History](kv)
	if err != nil {
		return nil, err
	}
	s, violations := oscar.ParseService(h.Service)
	if len(violations) > 0 {
		return nil, &store.CorruptError{Key: kv.Key, Err: fmt.Errorf("%s: %s", violations[0].Path, violations[0].Message)}
	}
	return s, nil
}

// shown is a replica's view of the submitted service.
func (c *ControlPlane) shown(submitted *oscar.Service, p place) *oscar.Service {
	s := submitted.Clone()
	m := p.at()
	s.Name, s.ClusterID, s.Owner, s.Token = m.ServiceName, m.ClusterID, p.rec.Owner, c.serviceToken(m.UID)
	g := graphOf(p.rec)
	if s.Federation == nil && len(p.rec.Members) == 1 {
		return s.WithDefaults() // OSCAR shows no federation where there is none
	}
	fed := federationOf(s)
	fed.GroupID, fed.Topology, fed.Delegation = p.rec.GroupID, p.rec.Topology, p.rec.Delegation
	if !m.Coordinator {
		fed.Members = nil
		for _, i := range g.Sees(p.member) {
			fed.Members = append(fed.Members, g.Nodes[i].Member)
		}
	}
	return s.WithDefaults()
}
