package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// An administrator restores an old snapshot without raising its revision: what
// the mirror has seen never happened, also when the store has meanwhile come
// farther than the mirror had.
func TestMirrorNoticesARestoredStore(t *testing.T) {
	for name, later := range map[string]int{"still behind": 0, "ahead again": 100} {
		t.Run(name, func(t *testing.T) {
			restored, lost := storetest.Etcd(t), storetest.Etcd(t)
			after, _ := open(t, store.Config{Endpoints: []string{restored}})
			before, _ := open(t, store.Config{Endpoints: []string{lost}})
			atRestore := put(t, after, "/t/kept", 1)
			put(t, before, "/t/kept", 1)
			var seen int64
			for i := range 50 {
				seen = put(t, before, "/t/lost", i)
			}
			proxy := storetest.NewProxy(t, lost)
			s, _ := open(t, store.Config{Endpoints: []string{proxy.Endpoint()}})
			stale := make(chan [2]int64, 1)
			m := runMirror(t, s, store.MirrorConfig{
				Prefixes: []string{"/t/"}, Interval: 100 * time.Millisecond,
				OnRelist: func(r store.Relist) {
					if r.Restored {
						stale <- [2]int64{r.Before.Revision(), r.Now.Revision()}
					}
				},
			})
			f := m.Feed()
			next(t, f)
			now, want := atRestore, []string{"/t/lost"}
			if later > 0 {
				put(t, after, "/t/new", 1)
				want = append(want, "/t/new")
			}
			for i := range later {
				now = put(t, after, "/elsewhere", i)
			}
			proxy.Retarget(restored)
			if got, want := await(t, stale), [2]int64{seen, now}; got != want {
				t.Errorf("told of %v, not of %v", got, want)
			}
			if keys := next(t, f); !slices.Equal(keys, want) {
				t.Errorf("reported: %v", keys)
			}
			wait(t, m, put(t, after, "/t/new", 2))
			expectContent(t, m, map[string]string{"/t/kept": "1", "/t/new": "2"})
		})
	}
}

// What is read of a store that was restored shows it, before the mirror lists it: as long as the key itself
// is another one.
func TestWhatIsReadOfARestoredStoreDoesNotFollow(t *testing.T) {
	lost, _ := open(t, store.Config{})
	put(t, lost, "/t/kept", 1)
	put(t, lost, "/t/changed", 1)
	put(t, lost, "/t/deleted", 1)
	backup := put(t, lost, "/t/last", 1)
	restored, _ := open(t, store.Config{})
	for _, key := range []string{"/t/kept", "/t/changed", "/t/deleted", "/t/last"} {
		put(t, restored, key, 1)
	}
	m := runMirror(t, lost, store.MirrorConfig{Prefixes: []string{"/t/"}})
	follows := func(s *store.Store, key string) bool {
		v, err := s.Read(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return v.Follows(m.Snapshot(), key)
	}
	put(t, lost, "/t/changed", 2)
	gone, err := lost.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Delete("/t/deleted")
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	seen := gone.Revision
	wait(t, m, seen)
	put(t, lost, "/t/new", 1)
	for _, key := range []string{"/t/kept", "/t/changed", "/t/deleted", "/t/new", "/t/never"} {
		if !follows(lost, key) {
			t.Errorf("%s is what became of it", key)
		}
	}
	if follows(restored, "/t/kept") {
		t.Error("the revisions went back")
	}
	for at := backup; at <= seen; {
		at = put(t, restored, "/elsewhere", 1)
	}
	for key, want := range map[string]bool{"/t/kept": true, "/t/changed": false, "/t/deleted": false} {
		if follows(restored, key) != want {
			t.Errorf("%s: it follows: %v", key, !want)
		}
	}
}

// A broken connection alone is no restore.
func TestMirrorDoesNotTakeAnInterruptionForARestore(t *testing.T) {
	server := storetest.Etcd(t)
	direct, _ := open(t, store.Config{Endpoints: []string{server}})
	proxy := storetest.NewProxy(t, server)
	s, faults := open(t, store.Config{Endpoints: []string{proxy.Endpoint()}})
	m := runMirror(t, s, store.MirrorConfig{
		Prefixes: []string{"/t/"}, Interval: 100 * time.Millisecond,
		OnRelist: func(r store.Relist) {
			if r.Restored {
				t.Errorf("told of a restore: %d, %d", r.Before.Revision(), r.Now.Revision())
			}
		},
	})
	for i := range 3 {
		put(t, direct, "/t/a", i)
		put(t, direct, "/t/b", i)
		proxy.Cut()
		remove(t, direct, "/t/b")
		wait(t, m, put(t, direct, "/t/c", i))
		expectContent(t, m, map[string]string{"/t/a": fmt.Sprint(i), "/t/c": fmt.Sprint(i)})
		until(t, m.Healthy) // before that there may be no stream to cut
		lists := faults.Streams(rangeStream)
		proxy.Cut()
		until(t, func() bool { return faults.Streams(rangeStream) > lists && m.Healthy() })
	}
}

// What a caller committed was lost with the history that it was of, and the mirror, which
// lagged behind, has seen nothing go back: it is carried along from a lower revision.
func TestWhoWaitsForARevisionThatWasLostIsTold(t *testing.T) {
	restored, lost := storetest.Etcd(t), storetest.Etcd(t)
	after, _ := open(t, store.Config{Endpoints: []string{restored}})
	before, _ := open(t, store.Config{Endpoints: []string{lost}})
	put(t, before, "/t/kept", 1)
	put(t, after, "/t/kept", 1)
	now := put(t, after, "/t/kept", 2)
	proxy := storetest.NewProxy(t, lost)
	s, _ := open(t, store.Config{Endpoints: []string{proxy.Endpoint()}})
	m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}, Interval: 100 * time.Millisecond})
	proxy.Freeze()
	var committed int64
	for i := range 50 {
		committed = put(t, before, "/t/lost", i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 2)
	for range cap(ended) {
		go func() { ended <- m.Wait(ctx, committed) }()
	}
	proxy.Retarget(restored)
	proxy.Thaw()
	for range cap(ended) {
		if err := await(t, ended); !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			t.Errorf("who waited is told: %v", err)
		}
	}
	if err := m.Wait(ctx, committed); !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("who comes later is told: %v", err)
	}
	wait(t, m, now)
	wait(t, m, put(t, after, "/t/new", 1))
	expectContent(t, m, map[string]string{"/t/kept": "2", "/t/new": "1"})
}
