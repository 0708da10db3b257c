package federations

import (
	"context"
	"errors"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/parts"
	"github.com/oscarfed/oscarfed/store/record"
)

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
	absent := view.NoService(name, p.Rec.Phase)
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
	return c.eachDefinitionAt(ctx, 0, feds, fn)
}

// eachDefinitionAt is EachDefinition with what the store held at a revision; 0 is the newest.
func (c *Controller) eachDefinitionAt(ctx context.Context, revision int64, feds []*record.Federation, fn func(*record.Federation, *oscar.Service, error) error) error {
	for some := range slices.Chunk(feds, definitionsAtOnce) {
		if err := c.eachOf(ctx, revision, some, fn); err != nil {
			return err
		}
	}
	return nil
}

// definitionsAtOnce is how many histories are held while what they share is read.
const definitionsAtOnce = 64

func (c *Controller) eachOf(ctx context.Context, revision int64, feds []*record.Federation, fn func(*record.Federation, *oscar.Service, error) error) error {
	var keys, named []string
	of, there, found := map[string]*record.Federation{}, []store.KV{}, map[string]store.KV{}
	for _, f := range feds {
		key := record.HistoryKey(f.UID, f.Generation)
		keys, of[key] = append(keys, key), f
	}
	err := c.store.EachAt(ctx, revision, keys, func(kv store.KV) error {
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
	err = c.store.EachAt(ctx, revision, named, func(kv store.KV) error {
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
	s.DropState() // which older versions stored
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
