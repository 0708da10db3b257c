package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

const (
	quota = 16 << 20
	// brief is the history promised where a recovery must come to its end: an alarm
	// may be taken back while the test still deletes, and what is merely short of
	// space keeps the history that was promised.
	brief = time.Second
)

// stepLog counts the steps of recoveries.
type stepLog struct {
	mu    sync.Mutex
	steps map[string]int
}

func (l *stepLog) note(step, outcome string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.steps == nil {
		l.steps = map[string]int{}
	}
	l.steps[step+" "+outcome]++
}

func (l *stepLog) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.steps[what]
}

// await waits until every step was taken: what it led to may be seen before the step is counted.
func (l *stepLog) await(t *testing.T, steps ...string) {
	t.Helper()
	until(t, func() bool {
		return !slices.ContainsFunc(steps, func(step string) bool { return l.count(step) == 0 })
	})
}

// watchSpace runs a quick watch until the test ends.
func watchSpace(t *testing.T, s *store.Store, cfg store.SpaceConfig) (*store.SpaceWatch, *stepLog) {
	t.Helper()
	steps := &stepLog{}
	cfg.Interval, cfg.MaxPause, cfg.OnStep = 50*time.Millisecond, 200*time.Millisecond, steps.note
	if cfg.Logger == nil {
		cfg.Logger = storetest.Logger(t)
	}
	w := s.NewSpaceWatch(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w, steps
}

// fill writes blocks of 100 KiB, each to a key of its own, until stop says so or
// etcd refuses.
func fill(t *testing.T, s *store.Store, prefix string, stop func() bool) error {
	t.Helper()
	for i := range 1000 {
		if stop() {
			return nil
		}
		if _, err := s.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.PutBytes(fmt.Sprintf("%s%04d", prefix, i), bytes.Repeat([]byte("x"), 100<<10))
			return nil
		}}); err != nil {
			return err
		}
	}
	t.Fatal("it is never full")
	return nil
}

func fillUp(t *testing.T, s *store.Store, prefix string) {
	t.Helper()
	if err := fill(t, s, prefix, func() bool { return false }); !errors.Is(err, store.ErrFull) {
		t.Fatalf("filling ended with: %v", err)
	}
}

// fillUntilSeen fills etcd below /foreign/ until every watch sees it full. A
// recovery that began while it was short may take the alarm back unseen.
func fillUntilSeen(t *testing.T, s *store.Store, watches ...*store.SpaceWatch) {
	t.Helper()
	until(t, func() bool {
		fillUp(t, s, "/foreign/")
		return !slices.ContainsFunc(watches, func(w *store.SpaceWatch) bool { return w.Space().Level != store.SpaceFull })
	})
}

// empty deletes a prefix key by key, which a full etcd lets through.
func empty(t *testing.T, s *store.Store, prefix string) {
	t.Helper()
	items, err := s.ListKeys(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range items {
		remove(t, s, kv.Key)
	}
}

// At the soft limit nothing was refused yet: everything that must go on still can.
func TestSpaceIsShortBeforeEtcdIsFull(t *testing.T) {
	server := storetest.Start(t, embedded.Config{Quota: quota})
	s := storetest.Open(t, store.Config{Endpoints: []string{server.Endpoint()}})
	w, steps := watchSpace(t, s, store.SpaceConfig{})
	until(t, func() bool { return w.Space().Level == store.SpaceOK })
	written := int64(0)
	if err := fill(t, s, "/t/big/", func() bool {
		until(t, func() bool { return w.Space().Worst.Size >= written }) // no faster than it is looked at
		written += 100 << 10
		return w.Space().Tight()
	}); err != nil {
		t.Fatalf("etcd refused before the watch knew: %v", err)
	}
	if got := w.Space(); got.Level != store.SpaceShort || got.Worst.Quota != quota || !strings.Contains(got.Advice(), "creates and changes are refused") {
		t.Errorf("%+v: %s", got, got.Advice())
	}
	put(t, s, "/t/small", 1)
	x, err := s.OpenSession(t.Context(), store.SessionConfig{Key: "/t/session", Record: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := steps.count("compact done"); n != 0 {
		t.Errorf("history was given up %d times though etcd is not full", n)
	}
}

// A full etcd is compacted, defragmented and disarmed without anybody's help, and
// a session that lived when it filled lives on.
func TestFullEtcdRecovers(t *testing.T) {
	inVirtualTime(t, embedded.Config{Quota: quota}, func(t *testing.T, n *virtual.Network) {
		s, faults := openOn(t, n, "test", store.Config{})
		// Its TTL is longer than a member takes to write its file anew on a busy machine.
		x, err := s.OpenSession(t.Context(), store.SessionConfig{Key: "/t/session", Record: 1, TTL: 9 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		w, steps := watchSpace(t, s, store.SpaceConfig{Retention: brief})
		mirror := runMirror(t, s, store.MirrorConfig{Prefixes: []string{"/t/"}, Interval: 200 * time.Millisecond})
		fillUntilSeen(t, s, w)
		renewed := faults.Streams(keepAlive)
		until(t, func() bool { return faults.Streams(keepAlive) > renewed+1 })
		if _, err := s.Get(t.Context(), "/t/session"); err != nil {
			t.Errorf("a read: %v", err)
		}
		empty(t, s, "/foreign/")
		until(t, func() bool { return w.Space().Level == store.SpaceOK })
		steps.await(t, "compact done", "defragment done", "disarm done")
		wait(t, mirror, put(t, s, "/t/after", 1))
		if content(mirror)["/t/after"] != "1" || content(mirror)["/t/session"] != "1" {
			t.Errorf("the mirror has %v", content(mirror))
		}
		if !x.Alive() {
			t.Error("the session did not outlive it")
		}
		if err := x.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Nobody writes after the last deletion: etcd counts what its compaction freed all the same.
func TestAQuietStoreHasSpaceAgain(t *testing.T) {
	inVirtualTime(t, embedded.Config{Quota: quota}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{})
		w, _ := watchSpace(t, s, store.SpaceConfig{Retention: brief})
		until(t, func() bool { return w.Space().Level == store.SpaceOK })
		if err := fill(t, s, "/foreign/", func() bool {
			<-time.After(100 * time.Millisecond) // no faster than it is looked at
			return w.Space().Tight()
		}); err != nil {
			t.Fatal(err)
		}
		empty(t, s, "/foreign/")
		until(t, func() bool { return w.Space().Level == store.SpaceOK })
	})
}

// What is stored fits, and leaves little room: the alarm is taken back all the same, so that it can be
// deleted.
func TestAnEtcdThatStaysNearlyFullTakesDeletions(t *testing.T) {
	inVirtualTime(t, embedded.Config{Quota: quota}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{})
		w, _ := watchSpace(t, s, store.SpaceConfig{Retention: brief})
		fillUntilSeen(t, s, w)
		items, err := s.ListKeys(t.Context(), "/foreign/")
		if err != nil {
			t.Fatal(err)
		}
		for few := range slices.Chunk(items, 5) {
			for _, kv := range few {
				remove(t, s, kv.Key)
			}
			<-time.After(2 * time.Second) // longer than the longest pause between two attempts
			if w.Space().Level != store.SpaceFull {
				break
			}
		}
		if level := w.Space().Level; level != store.SpaceShort {
			t.Fatalf("it is %s: more was deleted than had to be", level)
		}
		put(t, s, "/t/tombstone", 1)
	})
}

// A raised quota needs no history to go: the alarm is all that is left.
func TestAlarmAloneCostsNoHistory(t *testing.T) {
	dir := t.TempDir()
	server := storetest.Start(t, embedded.Config{Dir: dir, Quota: quota})
	s := storetest.Open(t, store.Config{Endpoints: []string{server.Endpoint()}})
	fillUp(t, s, "/t/big/")
	server.Close()
	server = storetest.Start(t, embedded.Config{Dir: dir, Quota: 4 * quota})
	s = storetest.Open(t, store.Config{Endpoints: []string{server.Endpoint()}})
	w, steps := watchSpace(t, s, store.SpaceConfig{})
	until(t, func() bool { return w.Space().Level == store.SpaceOK })
	put(t, s, "/t/after", 1)
	steps.await(t, "disarm done")
	for _, step := range []string{"compact done", "defragment done"} {
		if n := steps.count(step); n > 0 {
			t.Errorf("%s %d times", step, n)
		}
	}
}

// Two control planes on three members see the same at the same time.
func TestTwoRecoverThreeMembersAtOnce(t *testing.T) {
	t.Parallel()
	members := storetest.StartMembers(t, 3, func(c *embedded.Config) { c.Quota = quota })
	s := storetest.Open(t, store.Config{Endpoints: storetest.Endpoints(members), RequestTimeout: 5 * time.Second})
	first, a := watchSpace(t, s, store.SpaceConfig{Retention: brief})
	second, b := watchSpace(t, storetest.Open(t, store.Config{Endpoints: storetest.Endpoints(members)}), store.SpaceConfig{Retention: brief})
	fillUntilSeen(t, s, first, second)
	empty(t, s, "/foreign/")
	until(t, func() bool { return first.Space().Level == store.SpaceOK && second.Space().Level == store.SpaceOK })
	put(t, s, "/t/after", 1)
	until(t, func() bool { return a.count("defragment done")+b.count("defragment done") >= len(members) })
}

// breaker disturbs the calls of one method to one endpoint.
func breaker(method, endpoint string, call func(ctx context.Context) error) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, m string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		alarm, ok := req.(*pb.AlarmRequest)
		listing := ok && alarm.Action == pb.AlarmRequest_GET
		if m == method && !listing && (endpoint == "" || strings.HasSuffix(endpoint, cc.CanonicalTarget()[strings.LastIndexByte(cc.CanonicalTarget(), '/')+1:])) {
			if err := call(ctx); err != nil {
				return err
			}
		}
		return invoke(ctx, m, req, reply, cc, opts...)
	})
}

// A member whose defragmentation hangs holds up neither the others nor the alarm
// for longer than its deadline.
func TestHangingDefragmentationIsSkipped(t *testing.T) {
	t.Parallel()
	members := storetest.StartMembers(t, 3, func(c *embedded.Config) { c.Quota = quota })
	endpoints := storetest.Endpoints(members)
	const method = "/etcdserverpb.Maintenance/Defragment"
	var hung, others atomic.Int64
	asked := breaker(method, "", func(context.Context) error {
		others.Add(1)
		return nil
	})
	hang := breaker(method, endpoints[0], func(ctx context.Context) error {
		others.Add(-1)
		if hung.Add(1) > 2 {
			return nil
		}
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	})
	s := storetest.Open(t, store.Config{Endpoints: endpoints, DialOptions: []grpc.DialOption{asked, hang}, RequestTimeout: 5 * time.Second})
	w, steps := watchSpace(t, s, store.SpaceConfig{StepTimeout: time.Second, Retention: brief})
	fillUntilSeen(t, s, w)
	empty(t, s, "/foreign/")
	// Those of the others may take longer than the deadline, too: they are asked.
	until(t, func() bool { return steps.count("defragment failed") > 0 && hung.Load() > 0 && others.Load() > 0 })
	until(t, func() bool { return w.Space().Level == store.SpaceOK })
}

// An external etcd may not let us make space: then people are told what to run,
// and when they have, it goes on by itself.
func TestDeniedRecoveryTellsWhatToRun(t *testing.T) {
	server := storetest.Start(t, embedded.Config{Quota: quota})
	denied := func(context.Context) error {
		return status.Error(codes.PermissionDenied, "etcdserver: permission denied")
	}
	s := storetest.Open(t, store.Config{Endpoints: []string{server.Endpoint()}, DialOptions: []grpc.DialOption{
		breaker("/etcdserverpb.KV/Compact", "", denied), breaker("/etcdserverpb.Maintenance/Defragment", "", denied),
		breaker("/etcdserverpb.Maintenance/Alarm", "", denied),
	}})
	w, _ := watchSpace(t, s, store.SpaceConfig{})
	fillUp(t, s, "/foreign/")
	until(t, func() bool { return w.Space().Denied && w.Space().Level == store.SpaceFull })
	if got := w.Space(); !strings.Contains(got.Advice(), "etcdctl alarm disarm") {
		t.Error(got.Advice())
	}
	empty(t, s, "/foreign/")

	root, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	status, err := root.Status(t.Context(), server.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.Compact(t.Context(), status.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Defragment(t.Context(), server.Endpoint()); err != nil {
		t.Fatal(err)
	}
	if _, err := root.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return w.Space().Level == store.SpaceOK && !w.Space().Denied })
	put(t, s, "/t/after", 1)
}
