package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

var errEnough = errors.New("enough")

const (
	rangeStream = "/etcdserverpb.KV/RangeStream"
	watchStream = "/etcdserverpb.Watch/Watch"
	keepAlive   = "/etcdserverpb.Lease/LeaseKeepAlive"
)

// runMirror runs a mirror until the end of the test and waits until it is synced.
func runMirror(t *testing.T, s *store.Store, cfg store.MirrorConfig) *store.Mirror {
	t.Helper()
	m := s.NewMirror(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("mirror: %v", err)
		}
	})
	await(t, m.Synced())
	return m
}

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	var v T
	select {
	case v = <-c:
	case <-t.Context().Done():
		t.Fatal("the test ended")
	case <-time.After(time.Minute):
		t.Fatal("it does not come")
	}
	return v
}

func wait(t *testing.T, m *store.Mirror, revision int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := m.Wait(ctx, revision); err != nil {
		t.Fatalf("the mirror does not see revision %d: %v", revision, err)
	}
}

func next(t *testing.T, f *store.Feed) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	keys, err := f.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// content is all that the mirror holds.
func content(m *store.Mirror) map[string]string {
	out := make(map[string]string)
	for kv := range m.Snapshot().Prefix("") {
		out[kv.Key] = string(kv.Value)
	}
	return out
}

func expectContent(t *testing.T, m *store.Mirror, want map[string]string) {
	t.Helper()
	if got := content(m); !maps.Equal(got, want) {
		t.Errorf("the mirror holds %v, not %v", got, want)
	}
}

// rawClient is for what the store itself never does: compaction, leases.
func rawClient(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func compact(t *testing.T, endpoint string, revision int64) {
	t.Helper()
	if _, err := rawClient(t, endpoint).Compact(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
}

func TestMirrorFollows(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{})
		put(t, s, "/t/in/a", 1)
		put(t, s, "/t/in/b", 2)
		put(t, s, "/t/in/skip/x", 3)
		put(t, s, "/t/in0", 4)
		first := put(t, s, "/t/out/c", 5)
		m := runMirror(t, s, store.MirrorConfig{
			Prefixes: []string{"/t/in/"},
			Skip:     func(key string) bool { return strings.Contains(key, "/skip/") },
		})
		if m.Revision() != first {
			t.Errorf("listed at %d, not at %d", m.Revision(), first)
		}
		expectContent(t, m, map[string]string{"/t/in/a": "1", "/t/in/b": "2"})
		f := m.Feed()
		if keys := next(t, f); !slices.Equal(keys, []string{"/t/in/a", "/t/in/b"}) {
			t.Errorf("first keys: %v", keys)
		}

		remove(t, s, "/t/in/a")
		put(t, s, "/t/in/skip/y", 6)
		put(t, s, "/t/out/d", 7)
		before := m.Snapshot()
		last := put(t, s, "/t/in/c", 8)
		wait(t, m, last)
		expectContent(t, m, map[string]string{"/t/in/b": "2", "/t/in/c": "8"})
		seen := make(map[string]bool)
		for !seen["/t/in/c"] {
			for _, key := range next(t, f) {
				seen[key] = true
			}
		}
		if want := map[string]bool{"/t/in/a": true, "/t/in/c": true}; !maps.Equal(seen, want) {
			t.Errorf("changed keys: %v", seen)
		}
		v := m.Snapshot()
		kv, ok := v.KV("/t/in/c")
		if !ok || kv.ModRevision != last || v.Revision() != last {
			t.Errorf("%+v at %d", kv, v.Revision())
		}
		if _, ok := v.KV("/t/in/a"); ok {
			t.Error("a deleted key is there")
		}
		if got := slices.Collect(keysOf(v, "/t/in/c")); !slices.Equal(got, []string{"/t/in/c"}) {
			t.Errorf("prefix: %v", got)
		}
		if before.Revision() >= last {
			t.Errorf("an old snapshot moved to %d", before.Revision())
		}
		if _, ok := before.KV("/t/in/c"); ok {
			t.Error("an old snapshot has a new key")
		}
		if !m.Healthy() || m.LastHeard().IsZero() {
			t.Error("the mirror does not think itself healthy")
		}
		f.Close()
	})
}

func keysOf(v *store.MirrorView, prefix string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for kv := range v.Prefix(prefix) {
			if !yield(kv.Key) {
				return
			}
		}
	}
}

// Two prefixes are written in one transaction each time; no snapshot may show one
// of them ahead of the other.
func TestMirrorIsOfOneRevision(t *testing.T) {
	server := storetest.Etcd(t)
	direct, _ := open(t, store.Config{Endpoints: []string{server}})
	proxy := storetest.NewProxy(t, server)
	s, faults := open(t, store.Config{Endpoints: []string{proxy.Endpoint()}})
	writeAll := func(n int) int64 {
		res, err := direct.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Put("/t/b/x", n)
			tx.Put("/t/long/path/x", n)
			tx.Put("/t/a/x", n)
			return nil
		}})
		if err != nil {
			t.Error(err)
		}
		return res.Revision
	}
	// Others write also between the lists of two prefixes, until the last write: the
	// list that it was waiting for may still be at its start.
	var others sync.Mutex
	ended := false
	faults.BeforeStream(rangeStream, func() {
		others.Lock()
		defer others.Unlock()
		if !ended {
			writeAll(-1)
		}
	})
	m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/a/", "/t/b/", "/t/long/path/"}})
	var checked atomic.Int64
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			v := m.Snapshot()
			a, _ := v.KV("/t/a/x")
			b, _ := v.KV("/t/b/x")
			c, _ := v.KV("/t/long/path/x")
			if a.ModRevision != b.ModRevision || b.ModRevision != c.ModRevision || a.ModRevision > v.Revision() {
				t.Errorf("revisions %d, %d and %d in one view of %d", a.ModRevision, b.ModRevision, c.ModRevision, v.Revision())
			}
			if a.ModRevision > 0 {
				checked.Add(1)
			}
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	}()
	var last int64
	for i := range 300 {
		if i%50 == 49 {
			until(t, m.Healthy) // before that there may be no stream to cut
			lists := faults.Streams(rangeStream)
			proxy.Cut()
			until(t, func() bool { return faults.Streams(rangeStream) >= lists+3 })
		}
		others.Lock()
		last, ended = writeAll(i), i == 299
		others.Unlock()
	}
	wait(t, m, last)
	close(stop)
	<-done
	if checked.Load() == 0 {
		t.Error("no view was checked")
	}
	expectContent(t, m, map[string]string{"/t/a/x": "299", "/t/b/x": "299", "/t/long/path/x": "299"})
}

// What was deleted while the mirror could not see it, and compacted since, is
// found by the difference; what did not change is not reported.
func TestMirrorListsAgainAfterCompaction(t *testing.T) {
	server := storetest.Etcd(t)
	direct, _ := open(t, store.Config{Endpoints: []string{server}})
	for i := range 20 {
		put(t, direct, fmt.Sprintf("/t/%02d", i), i)
	}
	proxy := storetest.NewProxy(t, server)
	s, faults := open(t, store.Config{Endpoints: []string{proxy.Endpoint()}})
	m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}})
	f := m.Feed()
	next(t, f)

	proxy.Freeze()
	remove(t, direct, "/t/03")
	put(t, direct, "/t/05", 50)
	put(t, direct, "/t/new", 1)
	last := put(t, direct, "/t/05", 51)
	compact(t, server, last)
	proxy.Thaw()
	proxy.Cut()

	wait(t, m, last)
	got := content(m)
	if _, there := got["/t/03"]; there || got["/t/05"] != "51" || got["/t/new"] != "1" || len(got) != 20 {
		t.Errorf("after the compaction: %v", got)
	}
	if keys := next(t, f); !slices.Equal(keys, []string{"/t/03", "/t/05", "/t/new"}) {
		t.Errorf("reported: %v", keys)
	}
	if lists := faults.Streams(rangeStream); lists != 2 {
		t.Errorf("listed %d times", lists)
	}
}

// Others write and compact while nothing happens below the prefix: progress
// carries the mirror along.
func TestMirrorOfAQuietPrefixIsCarriedAlong(t *testing.T) {
	server := storetest.Etcd(t)
	s, faults := open(t, store.Config{Endpoints: []string{server}})
	put(t, s, "/t/quiet/a", 1)
	m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/quiet/"}})
	var last int64
	for i := range 50 {
		last = put(t, s, "/t/busy", i)
	}
	wait(t, m, last)
	compact(t, server, last)
	wait(t, m, put(t, s, "/t/quiet/a", 2))
	expectContent(t, m, map[string]string{"/t/quiet/a": "2"})
	if lists := faults.Streams(rangeStream); lists != 1 {
		t.Errorf("listed %d times", lists)
	}
}

func TestMirrorOfSingleKeys(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, faults := openOn(t, n, "test", store.Config{})
		put(t, s, "/t/c/desired/cluster", 1)
		put(t, s, "/t/c/desired/clusters", 2)
		put(t, s, "/t/c/desired/services/a", 3)
		put(t, s, "/t/c/desired/specs/a", 4)
		m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/c/desired/services/", "/t/c/desired/cluster", "/t/c/desired/absent"}})
		one := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/c/desired/cluster"}})
		expectContent(t, m, map[string]string{"/t/c/desired/cluster": "1", "/t/c/desired/services/a": "3"})
		put(t, s, "/t/c/desired/specs/a", 40)
		put(t, s, "/t/c/desired/absent", 5)
		last := put(t, s, "/t/c/desired/cluster", 10)
		wait(t, m, last)
		wait(t, one, last)
		expectContent(t, m, map[string]string{"/t/c/desired/absent": "5", "/t/c/desired/cluster": "10", "/t/c/desired/services/a": "3"})
		expectContent(t, one, map[string]string{"/t/c/desired/cluster": "10"})
		if lists := faults.Streams(rangeStream); lists != 1 {
			t.Errorf("%d prefixes were listed", lists)
		}
	})
}

func TestFeedEndsWithItsContext(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{})
		m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}})
		f := m.Feed()
		if keys := next(t, f); len(keys) != 0 {
			t.Errorf("an empty prefix has %v", keys)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errEnough)
		if _, err := f.Next(ctx); err != errEnough {
			t.Error(err)
		}
		if err := m.Wait(ctx, 1<<40); err != errEnough {
			t.Error(err)
		}
	})
}

// until asks again and again; the test fails when the answer never comes.
// until asks again and again, for two minutes at most.
func until(t *testing.T, ask func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for !ask() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the test ended")
		case <-late:
			t.Fatal("it does not come to pass")
		}
	}
}

func TestMirrorConfiguration(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{})
		for name, prefixes := range map[string][]string{
			"none":              nil,
			"nothing in common": {"/t/", "u/"},
		} {
			if err := s.NewMirror(store.MirrorConfig{Prefixes: prefixes}).Run(t.Context()); err == nil {
				t.Errorf("%s: accepted", name)
			}
		}
		m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}})
		if err := m.Run(t.Context()); err == nil {
			t.Error("it ran twice at the same time")
		}
	})
}
