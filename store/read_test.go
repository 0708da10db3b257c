package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

func TestGetAndDecode(t *testing.T) {
	s, _ := open(t, store.Config{})
	if _, err := s.Get(t.Context(), "/t/a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an absent key: %v", err)
	}
	revision := put(t, s, "/t/a", counter{N: 3})
	c, kv := get[counter](t, s, "/t/a")
	if c.N != 3 || kv.Key != "/t/a" || string(kv.Value) != `{"n":3}` || kv.CreateRevision != revision || kv.ModRevision != revision {
		t.Errorf("%+v %+v", c, kv)
	}
	_, err := store.Decode[counter](store.KV{Key: "/t/a", Value: []byte(`{"n":"3`)})
	if e, ok := errors.AsType[*store.CorruptError](err); !ok || e.Key != "/t/a" || e.Err == nil {
		t.Errorf("a truncated record: %v", err)
	}
}

func TestReadIsOfOneRevision(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, _ := openOn(t, n, "test", store.Config{})
		a := put(t, s, "/t/a", 1)
		b := put(t, s, "/t/b", 2)
		v, err := s.Read(t.Context(), "/t/b", "/t/none", "/t/a")
		if err != nil {
			t.Fatal(err)
		}
		ka, _ := v.KV("/t/a")
		kb, _ := v.KV("/t/b")
		if ka.ModRevision != a || kb.ModRevision != b || v.Revision != b {
			t.Errorf("%+v %+v at %d", ka, kb, v.Revision)
		}
		if _, ok := v.KV("/t/none"); ok {
			t.Error("an absent key was found")
		}
	})
}

// A server of the 3.6 line does not stream ranges.
func TestListWithAndWithoutStreams(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprint("streams=", streams), func(t *testing.T) {
			const method, n = "/etcdserverpb.KV/RangeStream", 2500
			s, faults := open(t, store.Config{RequestTimeout: 20 * time.Second, Deadline: time.Minute}) // large writes
			if !streams {
				faults.RefuseStreams(method, status.Error(codes.Unimplemented, "unknown method RangeStream"))
			}
			if _, err := write(t, s, "/t/in/", n, 10, 0); err != nil {
				t.Fatal(err)
			}
			put(t, s, "/t/in0", 1) // just behind the prefix
			last := put(t, s, "/t/im", 1)
			for range 2 {
				kvs, revision, err := s.List(t.Context(), "/t/in/")
				if err != nil {
					t.Fatal(err)
				}
				if len(kvs) != n || revision != last {
					t.Errorf("%d keys at %d", len(kvs), revision)
				}
				for i, kv := range kvs {
					if kv.Key != fmt.Sprintf("/t/in/%05d", i) || len(kv.Value) != 10 {
						t.Fatalf("key %d is %s", i, kv.Key)
					}
				}
			}
			if got, want := faults.Streams(method), map[bool]int{true: 2, false: 1}[streams]; got != want {
				t.Errorf("%d streams, want %d: what a server cannot do is asked once", got, want)
			}
		})
	}
}

// Pages of a thousand keys never came over a slow link, and were asked for again for ever.
func TestAListComesInPagesOverASlowLink(t *testing.T) {
	const n = 2500
	for perKey, comes := range map[time.Duration]bool{time.Millisecond: true, 10 * time.Millisecond: true, 500 * time.Millisecond: true, time.Hour: false} {
		t.Run(perKey.String(), func(t *testing.T) {
			inVirtualTime(t, embedded.Config{}, func(t *testing.T, network *virtual.Network) {
				near, _ := openOn(t, network, "near", store.Config{})
				if _, err := write(t, near, "/t/in/", n, 10, 0); err != nil {
					t.Fatal(err)
				}
				slow := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
					if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
						return err
					}
					answer, _ := reply.(*pb.RangeResponse)
					select {
					case <-ctx.Done():
						return status.FromContextError(ctx.Err()).Err()
					case <-time.After(time.Duration(len(answer.GetKvs())) * perKey):
						return nil
					}
				}
				s, faults := openOn(t, network, "far", store.Config{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(slow)}})
				faults.RefuseStreams(rangeStream, status.Error(codes.Unimplemented, "unknown method RangeStream"))
				kvs, _, err := s.List(t.Context(), "/t/in/")
				if !comes && !errors.Is(err, store.ErrUnavailable) || comes && (err != nil || len(kvs) != n) {
					t.Errorf("%d keys, %v", len(kvs), err)
				}
			})
		})
	}
}

// The first and the last key of a long list are written together.
func TestBackwards(t *testing.T) {
	s, _ := open(t, store.Config{RequestTimeout: 20 * time.Second, Deadline: time.Minute})
	const n = 1203 // three pages
	if _, err := write(t, s, "/t/in/", n, 10, 0); err != nil {
		t.Fatal(err)
	}
	put(t, s, "/t/in0", 1) // just behind the prefix
	put(t, s, "/t/im", 1)
	read := func(before string, most int) (keys []string) {
		t.Helper()
		err := s.Backwards(t.Context(), "/t/in/", before, func(kv store.KV) bool {
			if len(kv.Value) != 10 {
				t.Errorf("%s has %d bytes", kv.Key, len(kv.Value))
			}
			keys = append(keys, kv.Key)
			return len(keys) < most
		})
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	all := read("", n+1)
	if len(all) != n {
		t.Fatalf("%d keys, want %d", len(all), n)
	}
	for i, key := range all {
		if want := fmt.Sprintf("/t/in/%05d", n-1-i); key != want {
			t.Fatalf("key %d is %s, want %s", i, key, want)
		}
	}
	for _, tt := range []struct {
		before string
		most   int
		want   []string
	}{
		{"", 1, all[:1]}, {all[0], 2, all[1:3]}, {all[0] + "x", 1, all[:1]}, {all[700], 600, all[701:]}, {all[n-1], 5, nil}, {"/a", 5, nil}, {"/z", 1, all[:1]},
	} {
		if got := read(tt.before, tt.most); !slices.Equal(got, tt.want) {
			t.Errorf("before %q: %q", tt.before, got)
		}
	}
}

func TestListIsOfOneRevision(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprint("streams=", streams), func(t *testing.T) {
			s, faults := open(t, store.Config{})
			if !streams {
				faults.RefuseStreams(rangeStream, status.Error(codes.Unimplemented, "unknown method RangeStream"))
			}
			if _, err := write(t, s, "/t/m", 2000, 500, 0); err != nil {
				t.Fatal(err)
			}
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := s.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
						tx.Put("/t/a", n)
						tx.Put("/t/z", n)
						return nil
					}}); err != nil {
						t.Error(err)
						return
					}
				}
			}()
			for range 20 {
				kvs, revision, err := s.List(t.Context(), "/t/")
				if err != nil {
					t.Fatal(err)
				}
				a, z := kvs[0], kvs[len(kvs)-1]
				if a.Key == "/t/a" && a.ModRevision != z.ModRevision || a.ModRevision > revision {
					t.Errorf("%s is of %d and %s of %d in a list of %d", a.Key, a.ModRevision, z.Key, z.ModRevision, revision)
				}
			}
			close(stop)
			<-done
		})
	}
}

// TestReadsAreRepeatedWhileTheAuthStoreChanges: etcd refuses what was under way when a
// user or a role was changed, and takes it when it is sent again. So does every read,
// and none asks again for what was refused for good.
func TestReadsAreRepeatedWhileTheAuthStoreChanges(t *testing.T) {
	inVirtualTime(t, embedded.Config{}, func(t *testing.T, n *virtual.Network) {
		s, faults := openOn(t, n, "test", store.Config{})
		put(t, s, "/t/a", 1)
		const read, txn, stream, lease = "/etcdserverpb.KV/Range", "/etcdserverpb.KV/Txn", "/etcdserverpb.KV/RangeStream", "/etcdserverpb.Lease/LeaseGrant"
		for name, c := range map[string]struct {
			method string
			call   func() error
		}{
			"Get":  {read, func() error { _, err := s.Get(t.Context(), "/t/a"); return err }},
			"Read": {txn, func() error { _, err := s.Read(t.Context(), "/t/a"); return err }},
			"Each": {txn, func() error {
				return s.Each(t.Context(), []string{"/t/a"}, func(store.KV) error { return nil })
			}},
			"List":          {stream, func() error { _, _, err := s.List(t.Context(), "/t/"); return err }},
			"List of a key": {read, func() error { _, _, err := s.List(t.Context(), "/t/a"); return err }},
			"ListKeys":      {read, func() error { _, err := s.ListKeys(t.Context(), "/t/"); return err }},
			"Backwards": {read, func() error {
				return s.Backwards(t.Context(), "/t/", "", func(store.KV) bool { return true })
			}},
			"Grant": {lease, func() error { _, err := s.Grant(t.Context(), time.Minute); return err }},
			"Update": {txn, func() error {
				_, err := s.Update(t.Context(), store.Update{Keys: []string{"/t/a"}, Build: func(_ store.View, tx *store.Txn) error {
					tx.Put("/t/b", 1)
					return nil
				}})
				return err
			}},
		} {
			faults.FailCalls(c.method, 2, rpctypes.ErrGRPCAuthOldRevision)
			if err := c.call(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			before := faults.Calls(c.method) + faults.Streams(c.method)
			faults.FailCalls(c.method, 2, rpctypes.ErrGRPCPermissionDenied)
			if err := c.call(); !errors.Is(err, store.ErrDenied) {
				t.Errorf("%s: %v, want that it is denied", name, err)
			}
			if asked := faults.Calls(c.method) + faults.Streams(c.method) - before; asked != 1 {
				t.Errorf("%s asked %d times for what is denied", name, asked)
			}
			faults.FailCalls(c.method, 0, nil)
		}
	})
}
