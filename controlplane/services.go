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

// Services calls fn with every replica that the caller may see, by name and then by
// cluster, as OSCAR shows a service: secrets empty, the service's own token in clear. A
// coordinator shows the federation as it was submitted. It ends with fn's error.
func (c *ControlPlane) Services(ctx context.Context, caller identity.Caller, fn func(*oscar.Service) error) error {
	if err := c.fresh(ctx); err != nil {
		return err
	}
	var places []place
	c.state.read(func(v *View) {
		for uid, f := range v.federations {
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
	// A definition is kept from the first of its replicas to the last one. Those of one
	// federation mostly stand together, so that few are kept at a time.
	left := map[string]int{}
	for _, p := range places {
		left[p.uid]++
	}
	kept := map[string]*oscar.Service{}
	for i, p := range places {
		if _, read := kept[p.uid]; !read {
			if err := c.readAhead(ctx, places[i:], kept); err != nil {
				return crossing(err)
			}
		}
		if s := kept[p.uid]; s != nil {
			if err := fn(c.shown(s, p)); err != nil {
				return err
			}
		}
		if left[p.uid]--; left[p.uid] == 0 {
			delete(kept, p.uid)
		}
	}
	return nil
}

// aheadOf is how many definitions are read at once.
const aheadOf = 128

// readAhead reads the definitions of the federations that come first in places and are
// not known yet. One that was deleted between the two reads is known as nil.
func (c *ControlPlane) readAhead(ctx context.Context, places []place, known map[string]*oscar.Service) error {
	var next []*record.Federation
	for _, p := range places {
		if _, is := known[p.uid]; !is {
			known[p.uid] = nil
			next = append(next, p.rec)
		}
		if len(next) == aheadOf {
			break
		}
	}
	return c.eachSubmitted(ctx, next, func(f *record.Federation, s *oscar.Service, err error) error {
		known[f.UID] = s
		return err
	})
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
	return submittedIn(kv)
}

// eachSubmitted is submitted for many federations at a time. fn is not called for those
// that have no such generation any more; it is told of definitions that cannot be read.
func (c *ControlPlane) eachSubmitted(ctx context.Context, feds []*record.Federation, fn func(*record.Federation, *oscar.Service, error) error) error {
	keys, of := make([]string, len(feds)), make(map[string]*record.Federation, len(feds))
	for i, f := range feds {
		keys[i] = record.HistoryKey(f.UID, f.Generation)
		of[keys[i]] = f
	}
	return c.store.Each(ctx, keys, func(kv store.KV) error {
		s, err := submittedIn(kv)
		return fn(of[kv.Key], s, err)
	})
}

func submittedIn(kv store.KV) (*oscar.Service, error) {
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
	s.Name, s.ClusterID, s.Owner, s.Token = m.ServiceName, m.ClusterID, p.rec.Owner, c.doorToken(m.UID, p.rec.TokenRotation)
	g := graphOf(p.rec)
	c.state.read(func(v *View) {
		at := v.storageUsed(p)
		s.FillDefaultMinIO(at.MinioEndpoint, at.MinioRegion, at.MinioVerify)
	})
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
