package view

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// testState is a state over a store of its own. A test refreshes it by writing.
type testState struct {
	*State
	t     *testing.T
	store *store.Store
}

func newTestState(t *testing.T) *testState {
	t.Helper()
	st := virtual.Open(t)
	mirror := st.NewMirror(store.MirrorConfig{Prefixes: []string{record.Root}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = mirror.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	<-mirror.Synced()
	return &testState{State: NewState(mirror, time.Now), t: t, store: st}
}

// write makes a transaction, and refreshes the state up to it.
func (s *testState) write(fill func(tx *store.Txn)) {
	s.t.Helper()
	res, err := s.store.Update(s.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		fill(tx)
		return nil
	}})
	if err == nil {
		err = s.Wait(s.t.Context(), res.Revision)
	}
	if err != nil {
		s.t.Error(err)
	}
}

func putFederation(tx *store.Txn, uid string, generation int64, names ...string) {
	f := record.Federation{V: record.Version, UID: uid, Phase: record.PhaseReady, Generation: generation}
	for _, name := range names {
		f.Members = append(f.Members, record.Member{Type: "oscar", ClusterID: "c-" + name, ServiceName: name, UID: uid + name})
	}
	tx.Put(record.FederationKey(uid), f)
}

func TestAThousandWaitersDoNotLookAtEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, changed = 1000, 500
		s := newTestState(t)
		for first := 0; first < n; first += 100 {
			s.write(func(tx *store.Txn) {
				for i := first; i < first+100; i++ {
					putFederation(tx, fmt.Sprintf("f%d", i), 1, fmt.Sprintf("s%d", i))
				}
			})
		}
		var looks, began atomic.Int64
		looking := make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var all sync.WaitGroup
		told := make(chan struct{})
		for i := range n {
			uid, first := fmt.Sprintf("f%d", i), true
			all.Go(func() {
				err := s.Follow(ctx, uid, time.Hour, func(bool) (bool, error) {
					looks.Add(1)
					done := false
					s.Read(func(v *View) { done = v.Federations.m[uid].Rec.Generation == 2 })
					if first && began.Add(1) == n {
						close(looking)
					}
					first = false
					return done, nil
				})
				if i == changed {
					close(told)
					if err != nil {
						t.Error(err)
					}
				} else if !errors.Is(err, store.ErrUnknownOutcome) {
					t.Errorf("%s: %v", uid, err)
				}
			})
		}
		<-looking
		s.write(func(tx *store.Txn) { putFederation(tx, fmt.Sprintf("f%d", changed), 2, fmt.Sprintf("s%d", changed)) })
		<-told
		// The write wakes the waiter, which looks before it can see that ctx has ended.
		cancel()
		all.Wait()
		if got := looks.Load(); got != n+1 {
			t.Errorf("%d looks for one change and %d who wait, want %d", got, n, n+1)
		}
		if left := len(s.Waiters.of); left != 0 {
			t.Errorf("%d subjects are left when nobody waits", left)
		}
	})
}

func TestAChangeBetweenLookAndWaitIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestState(t)
		s.write(func(tx *store.Txn) { putFederation(tx, "f", 1, "a") })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		looks := 0
		err := s.Follow(ctx, "f", time.Hour, func(bool) (bool, error) {
			if looks++; looks == 1 {
				s.write(func(tx *store.Txn) { putFederation(tx, "f", 2, "a") })
			}
			return looks == 2, nil
		})
		if err != nil || looks != 2 {
			t.Errorf("%d looks: %v", looks, err)
		}
	})
}

// TestWhoIsWoken lists the changes that wake a waiter, and those that do not.
func TestWhoIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestState(t)
		s.write(func(tx *store.Txn) {
			putFederation(tx, "f", 1, "a", "b")
			putFederation(tx, "g", 1, "c")
			tx.Put(record.ClusterKey("c-a"), record.Cluster{V: record.Version, ClusterID: "c-a", UID: "u"})
			tx.Put(record.DesiredServiceKey("c-a", "a"), record.Desired{V: record.Version, Federation: "f", UID: "fa"})
		})
		subjects := map[string]Subject{
			"f": {federation: "f"}, "g": {federation: "g"}, "a": {Service: "a"}, "b": {Service: "b"}, "c": {Service: "c"}, "d": {Service: "d"},
		}
		waiting := map[string]*waiter{}
		for name, on := range subjects {
			waiting[name] = s.Waiters.Add(on)
		}
		defer func() {
			for _, w := range waiting {
				w.Drop()
			}
			if len(s.Waiters.of) != 0 {
				t.Errorf("%d subjects are left", len(s.Waiters.of))
			}
		}()
		for _, step := range []struct {
			what  string
			write func(tx *store.Txn)
			want  string
		}{
			{"its record", func(tx *store.Txn) { putFederation(tx, "f", 2, "a", "b") }, "abf"},
			{"a desired record", func(tx *store.Txn) {
				tx.Put(record.DesiredServiceKey("c-a", "a"), record.Desired{V: record.Version, Federation: "f", UID: "fa", Generation: 2})
			}, "abf"},
			{"a report", func(tx *store.Txn) {
				tx.Put(record.ObservedServiceKey("c-a", "a"), record.Observed{V: record.Version, UID: "fa"})
			}, "abf"},
			{"a session", func(tx *store.Txn) { tx.Put(record.SessionKey("c-a"), record.Session{V: record.Version}) }, "abf"},
			{"the end of a session", func(tx *store.Txn) { tx.Delete(record.SessionKey("c-a")) }, "abf"},
			{"a registration", func(tx *store.Txn) {
				tx.Put(record.ClusterKey("c-a"), record.Cluster{V: record.Version, ClusterID: "c-a", UID: "u", Endpoint: "https://x"})
			}, "abf"},
			{"a pause of a cluster", func(tx *store.Txn) {
				tx.Put(record.DesiredClusterKey("c-a"), record.DesiredCluster{V: record.Version, State: record.ClusterPaused})
			}, "abf"},
			{"a token", func(tx *store.Txn) { tx.Put(record.HoldKey("c-d", "f"), record.Hold{V: record.Version, Serial: 1}) }, "abf"},
			{"a session where the token is", func(tx *store.Txn) { tx.Put(record.SessionKey("c-d"), record.Session{V: record.Version}) }, "abf"},
			{"what a cluster says of itself", func(tx *store.Txn) {
				tx.Put(record.ObservedClusterKey("c-a"), record.ObservedCluster{V: record.Version, OscarVersion: "v4.1.2"})
			}, ""},
			{"capacity", func(tx *store.Txn) { tx.Put(record.CapacityKey("c-a"), record.Capacity{V: record.Version}) }, ""},
			{"another cluster", func(tx *store.Txn) { tx.Put(record.SessionKey("c-x"), record.Session{V: record.Version}) }, ""},
			{"a member that goes", func(tx *store.Txn) { putFederation(tx, "f", 3, "a") }, "abf"},
			{"one that goes no more", func(tx *store.Txn) { putFederation(tx, "f", 4, "a") }, "af"},
			{"a new federation of the name", func(tx *store.Txn) { putFederation(tx, "h", 1, "d", "c") }, "cd"},
			{"its end", func(tx *store.Txn) { tx.Delete(record.FederationKey("h")) }, "cd"},
		} {
			s.write(step.write)
			got := ""
			for _, name := range []string{"a", "b", "c", "d", "f", "g"} {
				select {
				case <-waiting[name].Wake:
					got += name
				default:
				}
			}
			if got != step.want {
				t.Errorf("%s wakes %q, want %q", step.what, got, step.want)
			}
		}
	})
}
