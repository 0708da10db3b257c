package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

const (
	sessionKey = "/t/c/session"
	// ttl is short, for tests in real time, and long enough for a machine that stands still for a
	// moment.
	ttl = 3 * time.Second
)

func openSession(t *testing.T, s *store.Store, record string) *store.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	x, err := s.OpenSession(ctx, store.SessionConfig{Key: sessionKey, Record: record, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close(context.Background()) })
	return x
}

// report writes as a session's owner would.
func report(t *testing.T, s *store.Store, x *store.Session, n int) error {
	t.Helper()
	_, err := s.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.ExpectSession(x)
		tx.Put("/t/c/report", n)
		return nil
	}})
	return err
}

func TestSessionHoldsItsKey(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{})
		x := openSession(t, s, "first")
		got, kv := get[string](t, s, sessionKey)
		if got != "first" || kv.Lease == 0 || kv.CreateRevision != x.CreateRevision() || x.Key() != sessionKey {
			t.Errorf("%q, %+v", got, kv)
		}
		if err := report(t, s, x, 1); err != nil {
			t.Error(err)
		}
		if !x.Alive() {
			t.Error("not alive")
		}
		if err := x.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := s.Get(t.Context(), sessionKey); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after Close: %v", err)
		}
		await(t, x.Done())
		if x.Alive() {
			t.Error("alive after Close")
		}
		if err := x.Close(t.Context()); err != nil {
			t.Errorf("closed twice: %v", err)
		}
	})
}

// The next session waits for the first one, and then the first can write no more.
func TestSessionFencesItsPredecessor(t *testing.T) {
	s, _ := open(t, store.Config{})
	first := openSession(t, s, "first")
	opened := make(chan *store.Session, 1)
	waiting := make(chan struct{})
	go func() {
		close(waiting)
		x, err := s.OpenSession(t.Context(), store.SessionConfig{Key: sessionKey, Record: "second", TTL: 2 * time.Second})
		if err != nil {
			t.Error(err)
		}
		opened <- x
	}()
	await(t, waiting)
	for n := range 5 { // while a caller waits
		if err := report(t, s, first, n); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-opened:
		t.Fatal("two sessions hold one key")
	default:
	}
	if err := first.Close(t.Context()); err != nil {
		t.Error(err)
	}
	second := await(t, opened)
	t.Cleanup(func() { _ = second.Close(context.Background()) })
	if second.CreateRevision() <= first.CreateRevision() {
		t.Errorf("revision %d after %d", second.CreateRevision(), first.CreateRevision())
	}
	if err := report(t, s, first, 98); !errors.Is(err, store.ErrSessionLost) {
		t.Errorf("the first session wrote after it had ended: %v", err)
	}
	if err := report(t, s, second, 99); err != nil {
		t.Error(err)
	}
	if n, _ := get[int](t, s, "/t/c/report"); n != 99 {
		t.Errorf("reported: %d", n)
	}
}

// Two see the key absent at the same moment; one of them waits for the other.
func TestTwoSessionsAtTheSameMoment(t *testing.T) {
	server := storetest.Etcd(t)
	direct, _ := open(t, store.Config{Endpoints: []string{server}})
	s, faults := open(t, store.Config{Endpoints: []string{server}})
	faster := make(chan *store.Session, 1)
	faults.BeforeWrite(func() { faster <- openSession(t, direct, "faster") })
	opened := make(chan *store.Session, 1)
	go func() {
		x, err := s.OpenSession(t.Context(), store.SessionConfig{Key: sessionKey, Record: "slower", TTL: ttl})
		if err != nil {
			t.Error(err)
		}
		opened <- x
	}()
	x := await(t, faster)
	for n := range 5 {
		if err := report(t, direct, x, n); err != nil {
			t.Error(err)
		}
	}
	if err := x.Close(t.Context()); err != nil {
		t.Error(err)
	}
	y := await(t, opened)
	if y.CreateRevision() <= x.CreateRevision() {
		t.Errorf("the slower has revision %d, the faster %d", y.CreateRevision(), x.CreateRevision())
	}
	if err := y.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenSessionGivesUpWithItsContext(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{})
		openSession(t, s, "first")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			cancel(errEnough)
		}()
		if _, err := s.OpenSession(ctx, store.SessionConfig{Key: sessionKey, Record: "second"}); !errors.Is(err, errEnough) {
			t.Error(err)
		}
		if got, _ := get[string](t, s, sessionKey); got != "first" {
			t.Errorf("the key is %q", got)
		}
		if _, err := s.OpenSession(t.Context(), store.SessionConfig{}); err == nil {
			t.Error("a session without a key was opened")
		}
	})
}

// The put of the session's key is answered late, twice or not at all.
func TestOpenSessionFindsOutAnUnknownOutcome(t *testing.T) {
	for name, disturb := range map[string]func(*storetest.Faults){
		"answer lost":   func(f *storetest.Faults) { f.LoseAnswers(1) },
		"not succeeded": func(f *storetest.Faults) { f.SendTwice(1) },
		"request lost":  func(f *storetest.Faults) { f.LoseRequests(1) },
	} {
		t.Run(name, func(t *testing.T) {
			s, faults := open(t, store.Config{})
			disturb(faults)
			x := openSession(t, s, "first")
			if _, kv := get[string](t, s, sessionKey); kv.CreateRevision != x.CreateRevision() {
				t.Errorf("the key is of %d, the session of %d", kv.CreateRevision, x.CreateRevision())
			}
			if err := report(t, s, x, 1); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSessionIsRenewed(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, faults := openOn(t, n, "test", store.Config{})
		x := openSession(t, s, "first")
		until(t, func() bool { return faults.Streams(keepAlive) >= 4 }) // longer than its TTL
		if err := report(t, s, x, 1); err != nil || !x.Alive() {
			t.Errorf("alive %v, error %v", x.Alive(), err)
		}
	})
}

// Another client ended the lease: the session learns it by the next renewal.
func TestSessionIsLostWithItsLease(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{})
		x := openSession(t, s, "first")
		_, kv := get[string](t, s, sessionKey)
		if _, err := rawOn(t, n).Revoke(t.Context(), clientv3.LeaseID(kv.Lease)); err != nil {
			t.Fatal(err)
		}
		await(t, x.Done())
		if x.Alive() {
			t.Error("alive without its lease")
		}
		if err := report(t, s, x, 1); !errors.Is(err, store.ErrSessionLost) {
			t.Error(err)
		}
		_, err := s.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Put("/t/c/before", 1)
			tx.PutUntil("/t/c/other", 1, store.Lease(kv.Lease))
			return nil
		}})
		if !errors.Is(err, store.ErrSessionLost) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("a put with a lost lease: %v", err)
		}
		// The error says that nothing was applied, so nothing may have been.
		if kvs, _, err := s.List(t.Context(), "/t/c/"); err != nil || len(kvs) > 0 {
			t.Errorf("applied: %v, error %v", kvs, err)
		}
		if err := x.Close(t.Context()); err != nil {
			t.Errorf("closing a lost session: %v", err)
		}
	})
}

// etcd cannot be reached any more: the session stops acting before its key is
// gone, and another may then open it.
func TestSessionIsLostWithItsConnection(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{RequestTimeout: 300 * time.Millisecond, Deadline: time.Second})
		direct, _ := openOn(t, n, "direct", store.Config{})
		x := openSession(t, s, "first")
		heal := n.Cut("test", "etcd")
		until(t, func() bool { return !x.Alive() })
		if _, err := direct.Get(t.Context(), sessionKey); err != nil {
			t.Errorf("the key was gone while its session believed itself alive: %v", err)
		}
		second := openSession(t, direct, "second") // waits for the lease to end
		await(t, x.Done())
		if err := report(t, direct, second, 1); err != nil {
			t.Error(err)
		}
		if err := x.Close(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("closing without etcd: %v", err)
		}
		heal()
		if err := report(t, s, x, 2); !errors.Is(err, store.ErrSessionLost) {
			t.Errorf("the first session wrote after the second had opened: %v", err)
		}
	})
}

func TestLeasedKeysEndWithTheSession(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{})
		x := openSession(t, s, "first")
		_, kv := get[string](t, s, sessionKey)
		lease := store.Lease(kv.Lease)
		put(t, s, "/t/c/leased", 1)
		for range 2 { // also when the bytes are equal, without and with the lease
			if _, err := s.Update(t.Context(), store.Update{Keys: []string{"/t/c/leased"}, Build: func(_ store.View, tx *store.Txn) error {
				tx.ExpectSession(x)
				tx.PutUntil("/t/c/leased", 1, lease)
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
		}
		// The same bytes without the lease are another thing: the key stays.
		if _, err := s.Update(t.Context(), store.Update{Keys: []string{"/t/c/kept"}, Build: func(_ store.View, tx *store.Txn) error {
			tx.PutUntil("/t/c/kept", 1, lease)
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		keep := func(_ store.View, tx *store.Txn) error { tx.Put("/t/c/kept", 1); return nil }
		if _, err := s.Update(t.Context(), store.Update{Keys: []string{"/t/c/kept"}, Build: keep}); err != nil {
			t.Fatal(err)
		}
		if err := x.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		kvs, _, err := s.List(t.Context(), "/t/c/")
		if err != nil || len(kvs) != 1 || kvs[0].Key != "/t/c/kept" {
			t.Errorf("left: %v, error %v", kvs, err)
		}
	})
}

// etcd counts its own numbers of leases upwards: from one the next can be told.
func TestNumbersOfLeasesAreRandom(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s := n.Open(t, "test", store.Config{})
		var last store.Lease
		for range 5 {
			lease, err := s.Grant(t.Context(), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if d := lease - last; lease <= 0 || d > -1<<20 && d < 1<<20 {
				t.Errorf("lease %d follows %d", lease, last)
			}
			last = lease
		}
	})
}

// A number that is taken is no failure: the next try has another.
func TestALeaseWhoseNumberIsTakenGetsAnother(t *testing.T) {
	const method = "/etcdserverpb.Lease/LeaseGrant"
	faults := new(storetest.Faults)
	server := storetest.Start(t, embedded.Config{})
	s := storetest.Open(t, store.Config{Endpoints: []string{server.Endpoint()}, DialOptions: faults.DialOptions()})
	faults.FailCalls(method, 2, rpctypes.ErrGRPCLeaseExist)
	if lease, err := s.Grant(t.Context(), time.Minute); err != nil || lease == 0 {
		t.Errorf("lease %d, %v", lease, err)
	}
	faults.FailCalls(method, 2, rpctypes.ErrGRPCLeaseExist)
	x, err := s.OpenSession(t.Context(), store.SessionConfig{Key: "/t/session", Record: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
