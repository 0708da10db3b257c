package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Needs is what the definition of a federation's service says of its jobs.
type Needs struct {
	// generation, and the epoch in which it was written: after a restore another one may have its number.
	generation int64
	epoch      string
	request    delegation.Request
	weights    map[string]float64
	// reads says that an input is in minio.default: events of buckets name objects there.
	reads bool
	// byOwner says that OSCAR starts a job of it for its owner's access token.
	byOwner bool
	// broken says that it cannot be read; nothing is assigned then.
	broken bool
}

// needsCache remembers the needs of federations, which are not in the mirror. It is asked while the read model is held, so
// nothing reads that model with mu held.
type needsCache struct {
	mu sync.Mutex
	of map[string]*Needs
}

// get returns the cached needs of a generation; nil for none.
func (n *needsCache) get(f *record.Federation) *Needs {
	n.mu.Lock()
	defer n.mu.Unlock()
	if have := n.of[f.UID]; have != nil && have.generation == f.Generation && have.epoch == f.Epoch {
		return have
	}
	return nil
}

func (n *needsCache) put(uid string, have *Needs) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[string]*Needs{}
	}
	n.of[uid] = have
}

// forgetGone drops the needs of federations that are gone.
func (n *needsCache) forgetGone(state *view.State) {
	n.mu.Lock()
	uids := slices.Collect(maps.Keys(n.of))
	n.mu.Unlock()
	state.Read(func(v *view.View) {
		uids = slices.DeleteFunc(uids, func(uid string) bool { _, lives := v.Federations.Lookup(uid); return lives })
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, uid := range uids {
		delete(n.of, uid)
	}
}

// NeedsOf reads what one pod of a federation's service asks for.
func (c *Controller) NeedsOf(ctx context.Context, f *record.Federation) (*Needs, error) {
	if have := c.needs.get(f); have != nil {
		return have, nil
	}
	s, err := c.federations.Definition(ctx, f)
	if err != nil {
		return nil, err
	}
	out, err := needsIn(f, s)
	if err != nil {
		return nil, err
	}
	c.needs.put(f.UID, out)
	return out, nil
}

// needsIn reads the needs of a federation from its definition; errBroken when it cannot.
func needsIn(f *record.Federation, s *oscar.Service) (*Needs, error) {
	request, err := delegation.RequestOf(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	out := &Needs{generation: f.Generation, epoch: f.Epoch, request: request, reads: topology.ReadsDefault(s), byOwner: oscar.StartedByOwner(s, f.Owner)}
	if s.Federation != nil {
		out.weights = s.Federation.Weights
	}
	return out, nil
}

// errBroken says that a definition requests an invalid quantity.
var errBroken = errors.New("the definition cannot be read")

// learnNeeds reads the needs that are not cached, of federations in a scope that have jobs to assign.
func (c *Controller) learnNeeds(ctx context.Context, s scope) error {
	unknown := map[string]*record.Federation{}
	c.state.Read(func(v *view.View) {
		learn := func(uid string) {
			if f := v.Federations.Get(uid).Rec; f != nil && c.needs.get(f) == nil {
				unknown[uid] = f
			}
		}
		for uid := range s.of {
			learn(uid)
		}
		if s.all {
			for uid := range v.Jobs.InFlight.Keys() {
				learn(uid) // also of jobs that run: they count in the shares
			}
		}
		for _, o := range someOffers(v) {
			if o != nil {
				learn(o.Federation)
			}
		}
	})
	feds := slices.Collect(maps.Values(unknown))
	err := c.federations.EachDefinition(ctx, feds, func(f *record.Federation, s *oscar.Service, err error) error {
		delete(unknown, f.UID)
		var out *Needs
		if err == nil {
			out, err = needsIn(f, s)
		}
		if err != nil {
			out = c.brokenNeeds(f, err)
		}
		c.needs.put(f.UID, out)
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range unknown {
		c.needs.put(f.UID, c.brokenNeeds(f, store.ErrNotFound))
	}
	return nil
}

// brokenNeeds are the needs of a federation that has gone or changed meanwhile, or whose
// definition cannot be read. Other federations go on.
func (c *Controller) brokenNeeds(f *record.Federation, err error) *Needs {
	c.cfg.Logger.Warn("jobs of a federation wait: its definition cannot be had", "federation", f.UID, "error", err)
	return &Needs{generation: f.Generation, epoch: f.Epoch, broken: true}
}
