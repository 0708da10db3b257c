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

// messages counts what the streams of a method carry, either way.
type messages struct {
	method string
	n      atomic.Int64
}

func (c *messages) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, opts...)
	if err != nil || method != c.method {
		return stream, err
	}
	return counted{stream, &c.n}, nil
}

type counted struct {
	grpc.ClientStream
	n *atomic.Int64
}

func (c counted) SendMsg(m any) error {
	c.n.Add(1)
	return c.ClientStream.SendMsg(m)
}

func (c counted) RecvMsg(m any) error {
	err := c.ClientStream.RecvMsg(m)
	if err == nil {
		c.n.Add(1)
	}
	return err
}

// Thousands of syncers of an idle federation renew their sessions, and ask nothing else.
func TestARenewalConfirmsAMirrorOnItsConnection(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		watched := &messages{method: watchStream}
		s, faults := openOn(t, n, "test", store.Config{DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(watched.intercept)}})
		elsewhere, _ := openOn(t, n, "elsewhere", store.Config{})
		x, err := s.OpenSession(t.Context(), store.SessionConfig{Key: sessionKey, Record: "holder", TTL: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}, Interval: 15 * time.Second, Small: true})
		<-time.After(time.Minute) // it has asked how far it has seen

		before := watched.n.Load()
		for range 60 {
			<-time.After(10 * time.Second)
			if !m.Healthy() {
				t.Fatal("it is not healthy")
			}
		}
		if n := watched.n.Load() - before; n != 0 {
			t.Errorf("%d messages on its watch in ten minutes in which nothing was written", n)
		}

		// What is written elsewhere may be what a watch misses: it is asked for.
		last := put(t, elsewhere, "/other/key", 1)
		<-time.After(time.Minute)
		if got := m.Revision(); got != last {
			t.Errorf("it has seen revision %d of %d", got, last)
		}
		if n := faults.Streams(watchStream); n != 1 {
			t.Errorf("%d watches were opened", n)
		}

		// Without the session it asks again.
		if err := x.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		before = watched.n.Load()
		<-time.After(10 * time.Minute)
		if n := watched.n.Load() - before; n < 40 || !m.Healthy() {
			t.Errorf("%d messages in ten minutes, healthy: %v", n, m.Healthy())
		}
	})
}

// hanging holds back what the first stream of a method that it sees receives, once it hangs.
type hanging struct {
	method string
	first  atomic.Bool
	hangs  atomic.Bool
}

func (h *hanging) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, opts...)
	if err != nil || method != h.method || !h.first.CompareAndSwap(false, true) {
		return stream, err
	}
	return held{stream, h}, nil
}

type held struct {
	grpc.ClientStream
	by *hanging
}

func (s held) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if s.by.hangs.Load() {
		<-s.Context().Done()
		return s.Context().Err()
	}
	return err
}

// A watch that tells nothing any more, on a connection that works, is noticed when there is something to tell.
func TestAWatchThatHangsIsOpenedAnewThoughRenewalsAreAnswered(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		watch := &hanging{method: watchStream}
		s, _ := openOn(t, n, "test", store.Config{DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(watch.intercept)}})
		elsewhere, _ := openOn(t, n, "elsewhere", store.Config{})
		x, err := s.OpenSession(t.Context(), store.SessionConfig{Key: sessionKey, Record: "holder", TTL: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = x.Close(t.Context()) }()
		m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}, Interval: 15 * time.Second, Small: true})
		<-time.After(time.Minute)
		watch.hangs.Store(true)
		<-time.After(10 * time.Minute)
		if !m.Healthy() {
			t.Error("it has missed nothing, and is not healthy")
		}
		last := put(t, elsewhere, "/t/a", 1)
		<-time.After(time.Minute)
		if got := m.Revision(); got < last {
			t.Errorf("it has seen revision %d of %d", got, last)
		}
		expectContent(t, m, map[string]string{"/t/a": "1", sessionKey: `"holder"`})
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
