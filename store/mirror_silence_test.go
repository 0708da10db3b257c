package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/storetest"
)

func TestMirrorDoesNotWaitForASlowConsumer(t *testing.T) {
	s, _ := open(t, store.Config{})
	m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}})
	slow := m.Feed()
	next(t, slow)
	held := m.Snapshot()
	var last int64
	for i := range 500 {
		last = put(t, s, fmt.Sprintf("/t/%d", i%5), i)
	}
	wait(t, m, last)
	if n := len(slices.Collect(held.Prefix("/t/"))); n != 0 {
		t.Errorf("%d keys came into a snapshot", n)
	}
	if keys := next(t, slow); len(keys) != 5 {
		t.Errorf("500 changes of 5 keys are told as %v", keys)
	}
}

// The connection stays open and carries nothing any more.
func TestMirrorLeavesAHalfOpenConnection(t *testing.T) {
	t.Run("of its own", func(t *testing.T) { leavesAHalfOpenConnection(t, store.MirrorConfig{}) })
	t.Run("that it shares", func(t *testing.T) { leavesAHalfOpenConnection(t, store.MirrorConfig{Small: true}) })
}

func leavesAHalfOpenConnection(t *testing.T, cfg store.MirrorConfig) {
	t.Helper()
	server := storetest.Etcd(t)
	direct, _ := open(t, store.Config{Endpoints: []string{server}})
	proxy := storetest.NewProxy(t, server)
	// gRPC's own probes would break the connection as well, some time later.
	s, faults := open(t, store.Config{Endpoints: []string{proxy.Endpoint()}, KeepAlive: time.Hour})
	cfg.Prefixes, cfg.Interval = []string{"/t/"}, 50*time.Millisecond
	m := runMirror(t, s, cfg)
	put(t, direct, "/t/b", 1)
	wait(t, m, put(t, direct, "/t/a", 1))
	f := m.Feed()
	next(t, f)
	before := faults.Streams(watchStream)
	proxy.FreezeOpen()
	wait(t, m, put(t, direct, "/t/a", 2))
	expectContent(t, m, map[string]string{"/t/a": "2", "/t/b": "1"})
	if keys := next(t, f); !slices.Equal(keys, []string{"/t/a"}) {
		t.Errorf("reported: %v", keys)
	}
	until(t, func() bool { return faults.Streams(watchStream) > before })
}

func TestMirrorIsNotHealthyWhileItHearsNothing(t *testing.T) {
	proxy := storetest.NewProxy(t, storetest.Etcd(t))
	s, _ := open(t, store.Config{Endpoints: []string{proxy.Endpoint()}})
	m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}, Interval: 50 * time.Millisecond})
	until(t, m.Healthy)
	proxy.Freeze()
	until(t, func() bool { return !m.Healthy() })
	proxy.Thaw()
	until(t, m.Healthy)
}

// Of three members the one that the watch is at answers nothing any more, on connections that stay. Who waits for a
// revision gets it from another member, long before anything tells that the connection is dead.
func TestMirrorLeavesAMemberThatIsBehind(t *testing.T) {
	members := storetest.Endpoints(storetest.StartMembers(t, 3))
	direct, _ := open(t, store.Config{Endpoints: members})
	var proxies []*storetest.Proxy
	var endpoints []string
	for _, endpoint := range members {
		p := storetest.NewProxy(t, endpoint)
		proxies, endpoints = append(proxies, p), append(endpoints, p.Endpoint())
	}
	s, _ := open(t, store.Config{Endpoints: endpoints, KeepAlive: time.Hour})
	m := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}, Interval: time.Hour})
	wait(t, m, put(t, direct, "/t/a", 0))
	for i, p := range proxies {
		p.Freeze()
		wait(t, m, put(t, direct, "/t/a", i+1))
		p.Thaw()
	}
	expectContent(t, m, map[string]string{"/t/a": "3"})
}
