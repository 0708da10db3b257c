package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/test/wire"
)

// Nothing is written anywhere: etcd goes on to answer on the one stream that there is.
func TestAMirrorOfAnIdleStoreKeepsItsWatch(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, faults := openOn(t, n, "test", store.Config{})
		revision := put(t, s, "/t/a", 1)
		m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}, Interval: time.Minute})

		// A wait for a revision that is still to come asks for progress again and again.
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		go func() { waited <- m.Wait(ctx, revision+1) }()
		for range 4 { // the first may be the answer that the watch was made
			before := m.LastHeard()
			until(t, func() bool { return m.LastHeard().After(before) })
		}
		if n := faults.Streams(watchStream); n != 1 {
			t.Errorf("%d watches were opened", n)
		}
		cancel()
		if err := await(t, waited); !errors.Is(err, context.Canceled) {
			t.Errorf("waiting ended with %v", err)
		}
	})
}

// breaks returns what breaks the connection that etcd writes to next, and what takes that back.
func breaks(n *virtual.Network) (cut, whole func()) {
	var mu sync.Mutex
	remove := func() {}
	whole = func() {
		mu.Lock()
		defer mu.Unlock()
		remove()
		remove = func() {}
	}
	cut = func() {
		whole()
		mu.Lock()
		defer mu.Unlock()
		remove = n.AddRule("etcd", "test", wire.Rule{Break: 1, Times: 1})
	}
	return cut, whole
}

// The connection is lost while revisions are told, and again and again when the store
// is idle: each is told once, and one to come is waited for.
func TestAHistoryWhoseConnectionIsLost(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		const patience = 3 * time.Second
		opened, faults := openOn(t, n, "test", store.Config{Deadline: patience})
		cut, whole := breaks(n)
		s := &story{t: t, store: opened}
		s.writes("/a/x=1", "/b/x=1").writes("/a/x=2", "/a/y=2").writes("/b/x=3").writes("-/a/x")
		first, last := s.revisions[0], s.revisions[3]

		var told []int64
		ended := make(chan error, 1)
		go func() {
			ended <- s.store.History(t.Context(), "/a/", first, last+1, func(revision int64, _ []store.Event) error {
				told = append(told, revision-first)
				if len(told) == 1 {
					cut()
				}
				return nil
			})
		}()
		for faults.Streams(watchStream) <= 4 { // a connection is lost, is made again, and stands for a while
			cut()
			<-time.After(20 * time.Second)
		}
		whole()
		select {
		case err := <-ended:
			t.Fatalf("it has ended (%v) before its last revision came", err)
		case <-time.After(2 * patience):
		}
		writer := &story{t: t, store: opened}
		writer.writes("/b/x=5")
		if err := await(t, ended); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int64{0, 1, 3}, told); diff != "" {
			t.Error(diff)
		}
	})
}

// The reader takes longer for one revision than etcd may be silent.
func TestASlowReaderOfAHistory(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		const patience = 3 * time.Second
		opened, _ := openOn(t, n, "test", store.Config{Deadline: patience})
		s := &story{t: t, store: opened}
		s.writes("/a/x=1").writes("/a/x=2").writes("/a/x=3")
		var told int
		err := s.store.History(t.Context(), "/a/", s.revisions[0], s.revisions[2], func(int64, []store.Event) error {
			if told++; told == 1 {
				<-time.After(2 * patience)
			}
			return nil
		})
		if err != nil || told != 3 {
			t.Errorf("%d revisions were told: %v", told, err)
		}
	})
}
