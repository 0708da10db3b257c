package federations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/parts"
	"github.com/oscarfed/oscarfed/store/record"
)

// Services calls fn with every replica that the caller may see, by name and then by cluster, in
// the form in which OSCAR shows a service: secrets empty, the service's own token in clear. A
// coordinator shows the federation as its definition has it. It ends with fn's error.
func (c *Controller) Services(ctx context.Context, caller identity.Caller, fn func(*oscar.Service) error) error {
	if err := c.gate.Fresh(ctx); err != nil {
		return err
	}
	var refs []view.MemberRef
	c.state.Read(func(v *view.View) {
		for uid, f := range v.Federations.All() {
			if f.Rec.Phase == record.PhaseDeleting || f.Rec.Phase.Result() || !caller.MayRead(f.Rec.Owner, f.Rec.Visibility, f.Rec.AllowedUsers) {
				continue
			}
			for i, m := range f.Rec.Members {
				if m.Replica() {
					refs = append(refs, view.MemberRef{UID: uid, Member: i, Rec: f.Rec, Rev: f.Rev})
				}
			}
		}
	})
	slices.SortFunc(refs, func(a, b view.MemberRef) int {
		return cmp.Or(cmp.Compare(a.At().ServiceName, b.At().ServiceName), cmp.Compare(a.At().ClusterID, b.At().ClusterID))
	})
	// A definition is kept in memory from the first of its replicas to the last one. Replicas
	// of one federation are mostly next to each other, so few definitions are kept at a time.
	left := map[string]int{}
	for _, p := range refs {
		left[p.UID]++
	}
	kept := map[string]*oscar.Service{}
	for i, p := range refs {
		if _, read := kept[p.UID]; !read {
			if err := c.readAhead(ctx, refs[i:], kept); err != nil {
				return fault.Crossing(err)
			}
		}
		if s := kept[p.UID]; s != nil {
			if err := fn(c.shown(s, p)); err != nil {
				return err
			}
		}
		if left[p.UID]--; left[p.UID] == 0 {
			delete(kept, p.UID)
		}
	}
	return nil
}

// aheadOf is how many definitions are read at once.
const aheadOf = 128

// readAhead reads the next definitions, in the order of refs, that are not known yet. A
// definition that was deleted between the two reads is known as nil.
func (c *Controller) readAhead(ctx context.Context, refs []view.MemberRef, known map[string]*oscar.Service) error {
	var next []*record.Federation
	for _, p := range refs {
		if _, is := known[p.UID]; !is {
			known[p.UID] = nil
			next = append(next, p.Rec)
		}
		if len(next) == aheadOf {
			break
		}
	}
	return c.EachDefinition(ctx, next, func(f *record.Federation, s *oscar.Service, err error) error {
		known[f.UID] = s
		return err
	})
}

// Service shows one replica as OSCAR shows a service, with the revision of its
// federation's record.
func (c *Controller) Service(ctx context.Context, caller identity.Caller, name, clusterID string) (*oscar.Service, int64, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, 0, err
	}
	p, err := c.state.Find(caller, name, clusterID)
	if err != nil {
		return nil, 0, err
	}
	absent := fault.NotFound(fmt.Sprintf("there is no service %q", name))
	if p.Rec.Phase.Result() {
		return nil, 0, absent
	}
	s, err := c.Definition(ctx, p.Rec)
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0, absent
	}
	if err != nil {
		return nil, 0, fault.Crossing(err)
	}
	return c.shown(s, p), p.Rev, nil
}

// Definition reads the definition of the present generation, without secrets.
func (c *Controller) Definition(ctx context.Context, f *record.Federation) (*oscar.Service, error) {
	kv, err := c.store.Get(ctx, record.HistoryKey(f.UID, f.Generation))
	if err != nil {
		return nil, err
	}
	return definitionIn(ctx, c.store.Get, kv)
}

// EachDefinition is Definition for many federations at a time. fn is not called for a
// federation without such a generation; it receives the error of a definition that cannot be
// read.
func (c *Controller) EachDefinition(ctx context.Context, feds []*record.Federation, fn func(*record.Federation, *oscar.Service, error) error) error {
	for some := range slices.Chunk(feds, definitionsAtOnce) {
		if err := c.eachOf(ctx, some, fn); err != nil {
			return err
		}
	}
	return nil
}

// definitionsAtOnce is how many histories are held while what they share is read.
const definitionsAtOnce = 64

func (c *Controller) eachOf(ctx context.Context, feds []*record.Federation, fn func(*record.Federation, *oscar.Service, error) error) error {
	var keys, named []string
	of, there, found := map[string]*record.Federation{}, []store.KV{}, map[string]store.KV{}
	for _, f := range feds {
		key := record.HistoryKey(f.UID, f.Generation)
		keys, of[key] = append(keys, key), f
	}
	err := c.store.Each(ctx, keys, func(kv store.KV) error {
		there = append(there, kv)
		if h, err := store.Decode[record.History](kv); err == nil {
			for _, name := range h.Parts {
				named = append(named, record.PartKey(of[kv.Key].UID, name))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = c.store.Each(ctx, named, func(kv store.KV) error {
		found[kv.Key] = kv
		return nil
	})
	if err != nil {
		return err
	}
	get := func(_ context.Context, key string) (store.KV, error) {
		if kv, ok := found[key]; ok {
			return kv, nil
		}
		return store.KV{}, store.ErrNotFound
	}
	for _, kv := range there {
		s, err := definitionIn(ctx, get, kv)
		if errors.Is(err, store.ErrNotFound) {
			continue // a newer generation has taken its place
		}
		if err := fn(of[kv.Key], s, err); err != nil {
			return err
		}
	}
	return nil
}

func definitionIn(ctx context.Context, get parts.Get, kv store.KV) (*oscar.Service, error) {
	h, err := store.Decode[record.History](kv)
	if err != nil {
		return nil, err
	}
	s, _, err := submitted(ctx, get, record.ParseKey(kv.Key).Name, h)
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrUnavailable) {
		return nil, &store.CorruptError{Key: kv.Key, Err: err}
	}
	return s, err
}

// shown is a replica's view of the definition.
func (c *Controller) shown(definition *oscar.Service, p view.MemberRef) *oscar.Service {
	s := definition.Clone()
	m := p.At()
	s.Name, s.ClusterID, s.Owner, s.Token = m.ServiceName, m.ClusterID, p.Rec.Owner, c.tokens.ControlPlaneToken(m.UID, p.Rec.TokenRotation)
	g := view.GraphOf(p.Rec)
	c.state.Read(func(v *view.View) {
		at := v.StorageUsed(p)
		s.FillDefaultMinIO(at.MinioEndpoint, at.MinioRegion, at.MinioVerify)
	})
	if s.Federation == nil && len(p.Rec.Members) == 1 {
		return s.WithDefaults() // OSCAR shows no federation where there is none
	}
	fed := OfService(s)
	fed.GroupID, fed.Topology, fed.Delegation = p.Rec.GroupID, p.Rec.Topology, p.Rec.Delegation
	if !m.Coordinator {
		fed.Members = nil
		for _, i := range g.Sees(p.Member) {
			fed.Members = append(fed.Members, g.Nodes[i].Member)
		}
	}
	return s.WithDefaults()
}
