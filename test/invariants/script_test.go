package invariants_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// owner of everything in these histories.
const owner = "cluster_admin"

var clock = record.At(time.Date(2026, 11, 20, 13, 4, 5, 0, time.UTC))

// script writes a history by hand, as the control plane and the syncers would, one
// transaction for each step. A hook may spoil a step before it is written.
type script struct {
	t        *testing.T
	endpoint string
	store    *store.Store
	identity *seal.Identity
	keys     map[string]written
	hooks    map[string]func(*txn)
	hit      map[string]bool
	clusters []string
	// leases of the join tokens, by key.
	leases map[string]store.Lease
}

// written is a key as the script last wrote it.
type written struct {
	value    []byte
	revision int64
}

// txn is a step in the making.
type txn struct {
	s     *script
	order []string
	puts  map[string][]byte // nil deletes
	// leased are the keys that end with a lease.
	leased map[string]store.Lease
}

func (x *txn) put(key string, rec any) {
	value, err := record.Encode(rec)
	if err != nil {
		x.s.t.Fatal(err)
	}
	x.raw(key, string(value))
}

func (x *txn) raw(key, value string) { x.set(key, []byte(value)) }

func (x *txn) remove(key string) { x.set(key, nil) }

func (x *txn) set(key string, value []byte) {
	if _, ok := x.puts[key]; !ok {
		x.order = append(x.order, key)
	}
	x.puts[key] = value
}

// leave takes a key out of the step.
func (x *txn) leave(keys ...string) {
	for _, key := range keys {
		if _, ok := x.puts[key]; !ok {
			x.s.t.Fatalf("the step does not write %s", key)
		}
		delete(x.puts, key)
		x.order = slices.DeleteFunc(x.order, func(k string) bool { return k == key })
	}
}

// edit changes a record that the step writes, or one that is in the store.
func edit[T any](x *txn, key string, fn func(*T)) {
	x.s.t.Helper()
	value, ok := x.puts[key]
	if !ok {
		value = x.s.keys[key].value
	}
	rec := new(T)
	if err := json.Unmarshal(value, rec); err != nil {
		x.s.t.Fatalf("%s: %v", key, err)
	}
	fn(rec)
	x.put(key, rec)
}

func newScript(t *testing.T) *script {
	t.Helper()
	endpoint := storetest.Etcd(t)
	id, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	s := &script{
		t: t, endpoint: endpoint, identity: id, clusters: []string{"a", "b", "c", "d"},
		store: storetest.Open(t, store.Config{Endpoints: []string{endpoint}}),
		keys:  map[string]written{}, hooks: map[string]func(*txn){}, hit: map[string]bool{}, leases: map[string]store.Lease{},
	}
	s.step("meta", func(x *txn) { x.put(record.MetaKey, record.Meta{V: 1, Schema: 1}) })
	for _, c := range s.clusters {
		s.step("register "+c, func(x *txn) {
			x.put(record.ClusterKey(c), record.Cluster{V: 1, ClusterID: c, UID: "uid-" + c, State: record.ClusterActive})
			x.put(record.DesiredClusterKey(c), record.DesiredCluster{V: 1, ClusterID: c, UID: "uid-" + c, State: record.ClusterActive})
			x.put(record.FenceKey, record.Fence{V: 1, Why: "registered " + c})
		})
		s.step("connect "+c, func(x *txn) {
			x.put(record.SessionKey(c), record.Session{V: 1, Instance: c})
			x.put(record.ObservedClusterKey(c), record.ObservedCluster{V: 1, Recipient: id.Recipient()})
		})
	}
	return s
}

// on spoils a later step.
func (s *script) on(step string, spoil func(*txn)) { s.hooks[step] = spoil }

// step writes one transaction and notes its revision.
func (s *script) step(name string, build func(*txn)) int64 {
	s.t.Helper()
	x := &txn{s: s, puts: map[string][]byte{}, leased: map[string]store.Lease{}}
	build(x)
	if spoil := s.hooks[name]; spoil != nil {
		spoil(x)
		s.hit[name] = true
	}
	res, err := s.store.Update(s.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for _, key := range x.order {
			if value := x.puts[key]; value != nil && x.leased[key] != 0 {
				tx.PutUntil(key, json.RawMessage(value), x.leased[key])
			} else if value != nil {
				tx.PutBytes(key, value)
			} else {
				tx.Delete(key)
			}
		}
		return nil
	}})
	if err != nil {
		s.t.Fatalf("step %s: %v", name, err)
	}
	for _, key := range x.order {
		if value := x.puts[key]; value != nil {
			s.keys[key] = written{value, res.Revision}
		} else {
			delete(s.keys, key)
		}
	}
	return res.Revision
}
