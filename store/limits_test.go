package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// write runs one update of n puts of size bytes, each key compared with absence
// for the first compares ones.
func write(t *testing.T, s *store.Store, prefix string, n, size, compares int) (store.Result, error) {
	t.Helper()
	return s.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for i := range n {
			key := fmt.Sprintf("%s%05d", prefix, i)
			if i < compares {
				tx.ExpectAbsent(key)
			}
			tx.PutBytes(key, bytes.Repeat([]byte("x"), size))
		}
		return nil
	}})
}

// What is refused here is about what etcd would refuse, and what passes here
// passes there: the limits depend on how the server counts, release by release.
func TestUpdateLimits(t *testing.T) {
	// A large transaction may take its time on a busy machine; it is to be sent once.
	s, faults := open(t, store.Config{RequestTimeout: time.Minute, Deadline: time.Minute})
	for i, c := range []struct {
		puts, size, compares int
		ok                   bool
	}{
		{1, 1, 1, true},
		{128, 1, 128, true},
		{129, 1, 0, true},
		{129, 1, 129, false}, // comparisons
		{500, 100, 0, true},
		{960, 1, 120, true},  // 120 children of 8
		{961, 1, 120, true},  // in children of children
		{1920, 1, 120, true}, // 120 children of 4 children of 4
		{1921, 1, 120, false},
		{4096, 16, 0, true}, // 64 children of 64
		{4097, 16, 0, true},
		{1, 1_390_000, 0, true},
		{1, 1_400_000, 0, false}, // bytes
		{100, 13_700, 100, true},
		{100, 14_000, 100, false},
	} {
		_, before := faults.Transactions()
		prefix := fmt.Sprintf("/t/%d/", i)
		res, err := write(t, s, prefix, c.puts, c.size, c.compares)
		if c.ok != (err == nil) || err != nil && !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("%+v: %v", c, err)
		}
		if _, after := faults.Transactions(); !c.ok && after != before {
			t.Errorf("%+v was sent", c)
		}
		kvs, _, err := s.List(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range kvs {
			if kv.ModRevision != res.Revision || kv.CreateRevision != res.Revision {
				t.Errorf("%+v: %s is of revisions %d and %d, not of %d", c, kv.Key, kv.CreateRevision, kv.ModRevision, res.Revision)
				break
			}
		}
		if want := map[bool]int{true: c.puts}[c.ok]; len(kvs) != want {
			t.Errorf("%+v: %d keys", c, len(kvs))
		}
	}
}

func TestUpdateOfManyIsAllOrNothing(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, faults := openOn(t, n, "test", store.Config{})
		faults.BeforeWrite(func() { put(t, s, "/t/fence", 1) })
		builds := 0
		_, err := s.Update(t.Context(), store.Update{Keys: []string{"/t/fence"}, Build: func(v store.View, tx *store.Txn) error {
			if builds++; builds > 1 {
				return nil
			}
			tx.Expect("/t/fence")
			for i := range 1000 {
				tx.Put(fmt.Sprintf("/t/many/%d", i), i)
			}
			return nil
		}})
		if err != nil || builds != 2 {
			t.Fatalf("%d builds, error %v", builds, err)
		}
		if kvs, _, err := s.List(t.Context(), "/t/many/"); err != nil || len(kvs) > 0 {
			t.Errorf("%d keys of a transaction that failed, error %v", len(kvs), err)
		}
		// Deletions are packed like puts.
		if _, err := write(t, s, "/t/many/", 1000, 1, 0); err != nil {
			t.Fatal(err)
		}
		keys := make([]string, 1000)
		for i := range keys {
			keys[i] = fmt.Sprintf("/t/many/%05d", i)
		}
		remove(t, s, keys...)
		if kvs, _, err := s.List(t.Context(), "/t/many/"); err != nil || len(kvs) > 0 {
			t.Errorf("%d keys are left, error %v", len(kvs), err)
		}
	})
}

func TestReadLimits(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{})
		if _, err := write(t, s, "/t/", 128, 1, 0); err != nil {
			t.Fatal(err)
		}
		var keys []string
		for i := range 128 {
			keys = append(keys, fmt.Sprintf("/t/%05d", i), fmt.Sprintf("/t/%05d", i)) // twice is once
		}
		v, err := s.Read(t.Context(), keys...)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if kv, ok := v.KV(key); !ok || string(kv.Value) != "x" || kv.ModRevision > v.Revision {
				t.Errorf("%s: %+v, %v", key, kv, ok)
			}
		}
		if _, err := s.Read(t.Context(), append(keys, "/t/another")...); !errors.Is(err, store.ErrTooLarge) {
			t.Error(err)
		}
	})
}
