package definition

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/oscarfed/oscarfed/syncer/session"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/parts"
	"github.com/oscarfed/oscarfed/store/record"
)

// Cache keeps the opened definitions of the current generations: specs are
// immutable, and opening one costs a read of etcd and a decryption.
type Cache struct {
	cluster *session.Cluster
	// localURL is under which OSCAR reaches us for the keys of an origin; empty when it
	// does not.
	localURL string

	mu   sync.Mutex
	defs map[string]*Definition // by spec name
	of   map[string]string      // service -> spec name
}

// NewCache makes a Cache. localURL is empty where OSCAR does not ask us for keys.
func NewCache(cluster *session.Cluster, localURL string) *Cache {
	return &Cache{cluster: cluster, localURL: localURL, defs: map[string]*Definition{}, of: map[string]string{}}
}

// Get is the definition of a spec that was opened before; nil for none.
func (c *Cache) Get(name string) *Definition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.defs[name]
}

// put keeps a definition in place of the one that the service had before.
func (c *Cache) put(service, name string, def *Definition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.of[service]; ok && old != name {
		delete(c.defs, old)
	}
	c.of[service], c.defs[name] = name, def
}

// Drop forgets the definition of a service, and its secrets with it.
func (c *Cache) Drop(service string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.defs, c.of[service])
	delete(c.of, service)
}

// EachWithOriginStorage gives each definition whose jobs use the storage of another cluster.
func (c *Cache) EachWithOriginStorage(each func(service string, def *Definition)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for service, name := range c.of {
		if def := c.defs[name]; def != nil && def.Storage != nil {
			each(service, def)
		}
	}
}

// ownMinIO is where the cluster's own MinIO is, as we have reported it; empty before that.
func (c *Cache) ownMinIO() string {
	kv, ok := c.cluster.Mirror.Snapshot().KV(record.ObservedClusterKey(c.cluster.ID))
	if !ok {
		return ""
	}
	self, err := store.Decode[record.ObservedCluster](kv)
	if err != nil {
		return ""
	}
	return self.MinioEndpoint
}

// parts reads the parts that a spec names; nil for none.
func (c *Cache) parts(ctx context.Context, d *record.Desired, spec *record.Spec) (*parts.Set, error) {
	if len(spec.Parts) == 0 {
		return nil, nil
	}
	set, err := parts.Read(ctx, c.cluster.Store.Get, d.Federation, spec.Parts)
	switch {
	case errors.Is(err, store.ErrDenied):
		return nil, fmt.Errorf("%w: etcd refuses its parts, as one without a gateway does: %w", ErrSpec, err)
	case errors.Is(err, parts.ErrUnusable):
		return nil, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	return set, err
}

// Open opens the spec that a desired record points to; nil for a record
// without one.
func (c *Cache) Open(ctx context.Context, service string, d *record.Desired) (*Definition, error) {
	if d == nil || d.Spec == "" {
		c.Drop(service)
		return nil, nil
	}
	if def := c.Get(d.Spec); def != nil {
		return def, nil
	}
	kv, err := c.cluster.Store.Get(ctx, record.SpecKey(c.cluster.ID, d.Spec))
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	spec, err := store.Decode[record.Spec](kv)
	if err != nil {
		return nil, err
	}
	var at *Storage
	if UsersService(d) { // whatever the spec says: the keys would be MinIO's root keys
		at = StorageFor(spec.Origin, c.localURL, c.ownMinIO())
	}
	set, err := c.parts(ctx, d, spec)
	if err != nil {
		return nil, err
	}
	def, err := open(c.cluster.Identity, c.cluster.ID, d, spec, set, at, c.cluster.Now())
	if err != nil {
		return nil, err
	}
	c.put(service, d.Spec, def)
	return def, nil
}
