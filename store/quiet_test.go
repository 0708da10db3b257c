package store_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

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

// spied counts what watches carry, either way, and holds back what the first one receives once it hangs.
type spied struct {
	messages atomic.Int64
	hangs    atomic.Bool
	streams  atomic.Int64
}

func (y *spied) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, opts...)
	if err != nil || method != watchStream {
		return stream, err
	}
	return spiedStream{stream, y, y.streams.Add(1) == 1}, nil
}

type spiedStream struct {
	grpc.ClientStream
	by    *spied
	first bool
}

func (s spiedStream) SendMsg(m any) error {
	s.by.messages.Add(1)
	return s.ClientStream.SendMsg(m)
}

func (s spiedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if s.first && s.by.hangs.Load() {
		<-s.Context().Done()
		return s.Context().Err()
	}
	if err == nil {
		s.by.messages.Add(1)
	}
	return err
}

// quietSyncer has what a syncer has of a store, a session and a small mirror, which have been there for a minute: the
// mirror has asked how far it has seen. Somebody else writes by elsewhere.
type quietSyncer struct {
	session   *store.Session
	mirror    *store.Mirror
	watches   *spied
	elsewhere *store.Store
}

func newQuietSyncer(t *testing.T, n *virtual.Network) quietSyncer {
	t.Helper()
	q := quietSyncer{watches: &spied{}}
	s, _ := openOn(t, n, "test", store.Config{DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(q.watches.intercept)}})
	q.elsewhere, _ = openOn(t, n, "elsewhere", store.Config{})
	var err error
	if q.session, err = s.OpenSession(t.Context(), store.SessionConfig{Key: sessionKey, Record: "holder", TTL: 30 * time.Second}); err != nil {
		t.Fatal(err)
	}
	q.mirror = runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}, Interval: 15 * time.Second, Small: true})
	<-time.After(time.Minute)
	return q
}

// Thousands of syncers of an idle federation renew their sessions, and ask nothing else.
func TestARenewalConfirmsAMirrorOnItsConnection(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		q := newQuietSyncer(t, n)
		before := q.watches.messages.Load()
		for range 60 {
			<-time.After(10 * time.Second)
			if !q.mirror.Healthy() {
				t.Fatal("it is not healthy")
			}
		}
		if n := q.watches.messages.Load() - before; n != 0 {
			t.Errorf("%d messages on its watch in ten minutes in which nothing was written", n)
		}

		// What is written elsewhere may be what a watch misses: it is asked for.
		last := put(t, q.elsewhere, "/other/key", 1)
		<-time.After(time.Minute)
		if got := q.mirror.Revision(); got != last {
			t.Errorf("it has seen revision %d of %d", got, last)
		}
		if n := q.watches.streams.Load(); n != 1 {
			t.Errorf("%d watches were opened", n)
		}

		// Without the session it asks again.
		if err := q.session.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		before = q.watches.messages.Load()
		<-time.After(10 * time.Minute)
		if n := q.watches.messages.Load() - before; n < 40 || !q.mirror.Healthy() {
			t.Errorf("%d messages in ten minutes, healthy: %v", n, q.mirror.Healthy())
		}
	})
}

// A watch that tells nothing any more, on a connection that works, is noticed when there is something to tell.
func TestAWatchThatHangsIsOpenedAnewThoughRenewalsAreAnswered(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		q := newQuietSyncer(t, n)
		defer func() { _ = q.session.Close(t.Context()) }()
		q.watches.hangs.Store(true)
		<-time.After(10 * time.Minute)
		if !q.mirror.Healthy() {
			t.Error("it has missed nothing, and is not healthy")
		}
		last := put(t, q.elsewhere, "/t/a", 1)
		<-time.After(time.Minute)
		if got := q.mirror.Revision(); got < last {
			t.Errorf("it has seen revision %d of %d", got, last)
		}
		expectContent(t, q.mirror, map[string]string{"/t/a": "1", sessionKey: `"holder"`})
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
