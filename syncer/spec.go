package syncer

import (
	"context"
	"fmt"
	"sync"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// specCache keeps the opened definitions of the current generations: specs are
// immutable, and opening one costs a read of etcd and a decryption.
type specCache struct {
	mu   sync.Mutex
	defs map[string]*definition // by spec name
	of   map[string]string      // service -> spec name
}

func newSpecCache() *specCache {
	return &specCache{defs: map[string]*definition{}, of: map[string]string{}}
}

func (c *specCache) get(name string) *definition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.defs[name]
}

// put keeps a definition in place of the one that the service had before.
func (c *specCache) put(service, name string, def *definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.of[service]; ok && old != name {
		delete(c.defs, old)
	}
	c.of[service], c.defs[name] = name, def
}

// drop forgets the definition of a service, and its secrets with it.
func (c *specCache) drop(service string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.defs, c.of[service])
	delete(c.of, service)
}

// placed gives each definition whose jobs use the storage of another cluster.
func (c *specCache) placed(each func(service string, def *definition)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for service, name := range c.of {
		if def := c.defs[name]; def != nil && def.place != nil {
			each(service, def)
		}
	}
}

// ownMinIO is where the cluster's own MinIO is, as we have reported it; empty before that.
func (s *Syncer) ownMinIO() string {
	kv, ok := s.cluster.Mirror.Snapshot().KV(record.ObservedClusterKey(s.cluster.ID))
	if !ok {
		return ""
	}
	c, err := store.Decode[record.ObservedCluster](kv)
	if err != nil {
		return ""
	}
	return c.MinioEndpoint
}

// definition opens the spec that a desired record points to; nil for a record
// without one.
func (s *Syncer) definition(ctx context.Context, service string, d *record.Desired) (*definition, error) {
	if d == nil || d.Spec == "" {
		s.specs.drop(service)
		return nil, nil
	}
	if def := s.specs.get(d.Spec); def != nil {
		return def, nil
	}
	kv, err := s.cluster.Store.Get(ctx, record.SpecKey(s.cluster.ID, d.Spec))
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	spec, err := store.Decode[record.Spec](kv)
	if err != nil {
		return nil, err
	}
	var at *place
	if usersService(d) { // whatever the spec says: the keys would be MinIO's root keys
		at = placeFor(spec.Origin, s.cfg.LocalURL, s.ownMinIO())
	}
	def, err := openDefinition(s.cluster.Identity, s.cluster.ID, d, spec, at, s.cluster.Now())
	if err != nil {
		return nil, err
	}
	s.specs.put(service, d.Spec, def)
	return def, nil
}
