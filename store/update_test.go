package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// counter and marker are the records of these tests.
type counter struct {
	N int `json:"n"`
}

type marker struct {
	RequestID string `json:"request_id"`
	N         int    `json:"n"`
}

// open starts a server and a store whose calls can be disturbed.
func open(t *testing.T, cfg store.Config) (*store.Store, *storetest.Faults) {
	t.Helper()
	faults := new(storetest.Faults)
	if cfg.Endpoints == nil {
		cfg.Endpoints = []string{storetest.Etcd(t)}
	}
	cfg.DialOptions = append(cfg.DialOptions, faults.DialOptions()...)
	return storetest.Open(t, cfg), faults
}

// put writes a key whatever it held.
func put(t *testing.T, s *store.Store, key string, rec any) int64 {
	t.Helper()
	res, err := s.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(key, rec)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return res.Revision
}

func remove(t *testing.T, s *store.Store, keys ...string) int64 {
	t.Helper()
	res, err := s.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for _, key := range keys {
			tx.Delete(key)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return res.Revision
}

func get[T any](t *testing.T, s *store.Store, key string) (T, store.KV) {
	t.Helper()
	kv, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := store.Decode[T](kv)
	if err != nil {
		t.Fatal(err)
	}
	return *rec, kv
}

// increment adds one to a counter; with a marker it can be told whether it did.
func increment(key, markerKey, id string, builds *int) store.Update {
	return store.Update{
		Keys: []string{key}, Marker: markerKey, RequestID: id,
		Build: func(v store.View, tx *store.Txn) error {
			if builds != nil {
				*builds++
			}
			var c counter
			if kv, ok := v.KV(key); ok {
				have, err := store.Decode[counter](kv)
				if err != nil {
					return err
				}
				c = *have
			}
			c.N++
			tx.Expect(key)
			tx.Put(key, c)
			if markerKey != "" {
				tx.Put(markerKey, marker{RequestID: id, N: c.N})
			}
			return nil
		},
	}
}

func TestUpdateLosesNoConcurrentIncrement(t *testing.T) {
	s, _ := open(t, store.Config{})
	const workers, each = 8, 25
	var g errgroup.Group
	for range workers {
		g.Go(func() error {
			for range each {
				if _, err := s.Update(t.Context(), increment("/t/n", "", "", nil)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if c, _ := get[counter](t, s, "/t/n"); c.N != workers*each {
		t.Errorf("counter is %d after %d increments", c.N, workers*each)
	}
}

func TestUpdateBuildsAgainFromWhatTheFailedTransactionReturned(t *testing.T) {
	s, faults := open(t, store.Config{})
	put(t, s, "/t/n", counter{N: 1})
	var seen []int
	u := increment("/t/n", "", "", nil)
	build := u.Build
	u.Build = func(v store.View, tx *store.Txn) error {
		kv, _ := v.KV("/t/n")
		c, err := store.Decode[counter](kv)
		if err != nil {
			return err
		}
		seen = append(seen, c.N)
		return build(v, tx)
	}
	faults.BeforeWrite(func() { put(t, s, "/t/n", counter{N: 41}) })
	readsBefore, _ := faults.Transactions()
	res, err := s.Update(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(seen) != "[1 41]" {
		t.Errorf("Build saw %v, not the first value and then the other's", seen)
	}
	// One read of the update: none for the second try, nor for the put in between,
	// which asks for no key.
	if reads, _ := faults.Transactions(); reads-readsBefore != 1 {
		t.Errorf("%d reading transactions", reads-readsBefore)
	}
	if c, kv := get[counter](t, s, "/t/n"); c.N != 42 || kv.ModRevision != res.Revision || !res.Written {
		t.Errorf("counter %+v at %d, result %+v", c, kv.ModRevision, res)
	}
}

// Many writers whose calls are lost and repeated: what was acknowledged counts
// once, and nothing else counts.
func TestUpdateCountsEveryRequestOnce(t *testing.T) {
	s, faults := open(t, store.Config{})
	const workers, each = 6, 15
	var g errgroup.Group
	for w := range workers {
		g.Go(func() error {
			for i := range each {
				switch (w + i) % 5 {
				case 0:
					faults.LoseAnswers(1)
				case 1:
					faults.SendTwice(1)
				case 2:
					faults.LoseRequests(1)
				}
				id := fmt.Sprintf("r%d-%d", w, i)
				if _, err := s.Update(t.Context(), increment("/t/n", "/t/requests/"+id, id, nil)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	markers, _, err := s.List(t.Context(), "/t/requests/")
	if err != nil {
		t.Fatal(err)
	}
	given := make(map[int]bool)
	for _, kv := range markers {
		m, err := store.Decode[marker](kv)
		if err != nil {
			t.Fatal(err)
		}
		given[m.N] = true
	}
	if c, _ := get[counter](t, s, "/t/n"); c.N != workers*each || len(given) != workers*each {
		t.Errorf("counter %d and %d different numbers after %d requests", c.N, len(given), workers*each)
	}
}

func TestUpdateWithoutMarkerReadsAndBuildsAgain(t *testing.T) {
	for name, disturb := range map[string]func(*storetest.Faults){
		"answer lost":   func(f *storetest.Faults) { f.LoseAnswers(1) },
		"not succeeded": func(f *storetest.Faults) { f.SendTwice(1) },
	} {
		t.Run(name, func(t *testing.T) {
			s, faults := open(t, store.Config{})
			disturb(faults)
			res, err := s.Update(t.Context(), store.Update{Keys: []string{"/t/a"}, Build: func(_ store.View, tx *store.Txn) error {
				tx.Expect("/t/a")
				tx.Put("/t/a", counter{N: 7}) // decided by the state alone
				return nil
			}})
			if err != nil || res.Written {
				t.Errorf("result %+v, error %v; the second Build has nothing to do", res, err)
			}
			if c, kv := get[counter](t, s, "/t/a"); c.N != 7 || kv.ModRevision != kv.CreateRevision {
				t.Errorf("%+v was written again at %d", c, kv.ModRevision)
			}
		})
	}
}

func TestUpdateEndsWithTheCallersContext(t *testing.T) {
	proxy := storetest.NewProxy(t, storetest.Etcd(t))
	s, faults := open(t, store.Config{Endpoints: []string{proxy.Endpoint()}})
	gone := errors.New("the caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	faults.BeforeWrite(func() {
		proxy.Freeze()
		cancel(gone)
	})
	_, err := s.Update(ctx, increment("/t/n", "", "", nil))
	if !errors.Is(err, gone) || !errors.Is(err, store.ErrUnknownOutcome) {
		t.Error(err)
	}
	proxy.Thaw()
}

func TestUpdateEndsWithBuildsError(t *testing.T) {
	s, faults := open(t, store.Config{})
	enough := errors.New("enough")
	_, err := s.Update(t.Context(), store.Update{Build: func(store.View, *store.Txn) error { return enough }})
	if err != enough {
		t.Errorf("%v is not what Build returned", err)
	}
	// After a try that may have been applied the caller must learn of the doubt too.
	faults.LoseRequests(1)
	builds := 0
	u := increment("/t/n", "/t/request", "r1", &builds)
	build := u.Build
	u.Build = func(v store.View, tx *store.Txn) error {
		if builds == 1 {
			return enough
		}
		return build(v, tx)
	}
	if _, err = s.Update(t.Context(), u); !errors.Is(err, enough) || !errors.Is(err, store.ErrUnknownOutcome) {
		t.Error(err)
	}
}

func TestUpdateWritesOnlyWhatChanges(t *testing.T) {
	s, faults := open(t, store.Config{})
	put(t, s, "/t/a", counter{N: 1})
	before, _ := get[counter](t, s, "/t/a")
	_, writesBefore := faults.Transactions()
	run := func(build func(tx *store.Txn)) store.Result {
		t.Helper()
		res, err := s.Update(t.Context(), store.Update{Keys: []string{"/t/a", "/t/b"}, Build: func(_ store.View, tx *store.Txn) error {
			build(tx)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for name, build := range map[string]func(tx *store.Txn){
		"nothing":                 func(*store.Txn) {},
		"the same bytes":          func(tx *store.Txn) { tx.Put("/t/a", before) },
		"deletion of what is not": func(tx *store.Txn) { tx.Delete("/t/b") },
		"only expectations":       func(tx *store.Txn) { tx.Expect("/t/a") },
		"put and then deleted":    func(tx *store.Txn) { tx.Put("/t/b", before); tx.Delete("/t/b") },
	} {
		if res := run(build); res.Written {
			t.Errorf("%s: written at %d", name, res.Revision)
		}
	}
	if _, writes := faults.Transactions(); writes != writesBefore {
		t.Errorf("%d transactions were sent", writes-writesBefore)
	}
	res := run(func(tx *store.Txn) { tx.Put("/t/a", before); tx.Touch("/t/a") })
	if _, kv := get[counter](t, s, "/t/a"); !res.Written || kv.ModRevision != res.Revision {
		t.Errorf("a touched key is at %d, the result is %+v", kv.ModRevision, res)
	}
	// The marker goes with a write even if it is equal.
	put(t, s, "/t/request", marker{RequestID: "r1", N: 1})
	if res, err := s.Update(t.Context(), increment("/t/n", "/t/request", "r1", nil)); err != nil || !res.Written {
		t.Errorf("result %+v, error %v", res, err)
	} else if _, kv := get[marker](t, s, "/t/request"); kv.ModRevision != res.Revision {
		t.Error("the marker was left out")
	}
}

func TestUpdateExpectations(t *testing.T) {
	s, _ := open(t, store.Config{})
	revision := put(t, s, "/t/here", counter{N: 1})
	conflict := func(err error) bool {
		e, ok := errors.AsType[*store.ConflictError](err)
		return ok && e.Key == "/t/here" && e.Want == revision+100 && e.Have == revision
	}
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	none := func(err error) bool { return err == nil }
	for name, c := range map[string]struct {
		expect func(tx *store.Txn)
		want   func(error) bool
	}{
		"absent and is":             {func(tx *store.Txn) { tx.ExpectAbsent("/t/absent") }, none},
		"absent and is not":         {func(tx *store.Txn) { tx.ExpectAbsent("/t/here") }, is(store.ErrExists)},
		"revision and is":           {func(tx *store.Txn) { tx.ExpectRevision("/t/here", revision) }, none},
		"revision and is not":       {func(tx *store.Txn) { tx.ExpectRevision("/t/here", revision+100) }, conflict},
		"revision 0 of absent":      {func(tx *store.Txn) { tx.ExpectRevision("/t/absent", 0) }, none},
		"stated twice":              {func(tx *store.Txn) { tx.ExpectAbsent("/t/absent"); tx.ExpectAbsent("/t/absent") }, none},
		"what was read":             {func(tx *store.Txn) { tx.Expect("/t/read") }, none},
		"what was not read":         {func(tx *store.Txn) { tx.Expect("/t/here") }, func(err error) bool { return err != nil }},
		"touch of what was not put": {func(tx *store.Txn) { tx.Touch("/t/here") }, func(err error) bool { return err != nil }},
		"put without a key":         {func(tx *store.Txn) { tx.Put("", 1) }, func(err error) bool { return err != nil }},
		"put of no JSON":            {func(tx *store.Txn) { tx.Put("/t/x", func() {}) }, func(err error) bool { return err != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := s.Update(t.Context(), store.Update{Keys: []string{"/t/read"}, Build: func(_ store.View, tx *store.Txn) error {
				c.expect(tx)
				tx.Put("/t/"+strings.ReplaceAll(name, " ", "_"), counter{N: 1})
				return nil
			}})
			if !c.want(err) {
				t.Errorf("unexpected: %v", err)
			}
			if res.Written != (err == nil) {
				t.Errorf("result %+v with error %v", res, err)
			}
		})
	}
}

func TestUpdateRefusesAMarkerThatIsNotWritten(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{})
		for name, write := range map[string]func(tx *store.Txn){
			"not at all":     func(*store.Txn) {},
			"another id":     func(tx *store.Txn) { tx.Put("/t/request", marker{RequestID: "r2"}) },
			"deleted":        func(tx *store.Txn) { tx.Delete("/t/request") },
			"without any id": func(tx *store.Txn) { tx.PutBytes("/t/request", []byte("x")) },
		} {
			_, err := s.Update(t.Context(), store.Update{Marker: "/t/request", RequestID: "r1", Build: func(_ store.View, tx *store.Txn) error {
				tx.Put("/t/a", 1)
				write(tx)
				return nil
			}})
			if err == nil {
				t.Errorf("%s: accepted", name)
			}
		}
		if _, err := s.Update(t.Context(), store.Update{Marker: "/t/request", Build: func(store.View, *store.Txn) error { return nil }}); err == nil {
			t.Error("a marker without a request id was accepted")
		}
		if kvs, _, err := s.List(t.Context(), "/"); err != nil || len(kvs) > 0 {
			t.Errorf("written: %v, error %v", kvs, err)
		}
	})
}
