package controlplane_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

func TestTheSameRequestGetsTheSameOutcome(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		key := func(r *federations.CreateRequest) { r.IdempotencyKey = "k1" }
		first, err := w.create(key)
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.create(key)
		if err != nil || !again.Replayed || again.Federation.UID != first.Federation.UID {
			t.Errorf("%+v %v", again, err)
		}
		if _, err := w.create(); codeOf(t, err) != fault.CodeAlreadyExists {
			t.Errorf("without the key it is another request: %v", err)
		}
		other := strings.Replace(body, "0.5Gi", "1Gi", 1)
		_, err = w.Federations.CreateService(t.Context(), admin, send(t, other, key))
		if codeOf(t, err) != fault.CodeFailedPrecondition {
			t.Errorf("the key with another body: %v", err)
		}
		// A failure is kept as well.
		w.clusters["b"].does(no(record.ReasonDoesNotFit))
		refused := strings.NewReplacer("grayifyr", "other").Replace(body)
		key2 := func(r *federations.CreateRequest) { r.IdempotencyKey = "k2" }
		_, err1 := w.Federations.CreateService(t.Context(), admin, send(t, refused, key2))
		w.clusters["b"].does(yes)
		_, err2 := w.Federations.CreateService(t.Context(), admin, send(t, refused, key2))
		if codeOf(t, err1) != fault.CodeFailedPrecondition || codeOf(t, err2) != codeOf(t, err1) || err1.Error() != err2.Error() {
			t.Errorf("%v and then %v", err1, err2)
		}
	})
}

// TestAServiceIsCreatedOnTheClusterThatItsRequestNames: with ?cluster_id=, as a PUT and a plan of it take it.
func TestAServiceIsCreatedOnTheClusterThatItsRequestNames(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		const alone = `{"name":"alone","image":"ubuntu","script":"true"}`
		on := func(cluster string) func(*federations.CreateRequest) {
			return func(r *federations.CreateRequest) { r.ClusterID, r.IdempotencyKey = cluster, "k1" }
		}
		res, err := w.Federations.CreateService(t.Context(), admin, send(t, alone, on("b")))
		if err != nil || res.Federation.Members[0].ClusterID != "b" {
			t.Fatalf("%+v %v", res, err)
		}
		again, err := w.Federations.CreateService(t.Context(), admin, send(t, alone, on("b")))
		if err != nil || !again.Replayed || again.Federation.UID != res.Federation.UID {
			t.Errorf("the same request: %+v %v", again, err)
		}
		if _, err := w.Federations.CreateService(t.Context(), admin, send(t, alone, on("c"))); codeOf(t, err) != fault.CodeFailedPrecondition {
			t.Errorf("the key with another cluster: %v", err)
		}
	})
}

// TestTheOutcomeOfAFederationThatIsGone is what it was: ready, of generation 1, with
// the revision that it had; and not how its replicas are by now.
func TestTheOutcomeOfAFederationThatIsGone(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		key := func(r *federations.CreateRequest) { r.IdempotencyKey = "k1" }
		first, err := w.create(key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		again, err := w.create(key)
		if err != nil || !again.Replayed {
			t.Fatalf("%+v %v", again, err)
		}
		got, want := again.Federation, first.Federation
		if got.UID != want.UID || got.Phase != record.PhaseReady || got.Revision != want.Revision || got.Revision == 0 {
			t.Errorf("%s is %s at revision %d, want %s ready at %d", got.UID, got.Phase, got.Revision, want.UID, want.Revision)
		}
		for _, m := range got.Members {
			if m.Status.Phase != record.PhaseReady || m.Status.ObservedGeneration != 1 {
				t.Errorf("%s is shown as %+v", m.ClusterID, m.Status)
			}
		}
	})
}

func TestTheSameRequestAfterItsOutcomeIsANewOne(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["b"].does(no(record.ReasonDoesNotFit))
		if _, err := w.create(); codeOf(t, err) != fault.CodeFailedPrecondition {
			t.Fatal(err)
		}
		// What a request without a key left behind must not answer for the next one,
		// not even when the instance that decided died before it took it away.
		items, _, err := w.store.List(t.Context(), record.FederationsPrefix)
		if err != nil || len(items) != 1 {
			t.Fatal(len(items), err)
		}
		fed, err := store.Decode[record.Federation](items[0])
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Put(record.RequestKey(fed.Request), record.Request{V: record.Version, BodyHash: "stale", UID: fed.UID})
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		w.clusters["b"].does(yes)
		if _, err := w.create(); err != nil {
			t.Error(err)
		}
	})
}

func TestConcurrentSameRequestsMakeOneFederation(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		var wg sync.WaitGroup
		uids := make([]string, 8)
		for i := range uids {
			wg.Go(func() {
				res, err := w.create()
				if err == nil {
					uids[i] = res.Federation.UID
				} else if code := codeOf(t, err); code != fault.CodeAlreadyExists && code != fault.CodeConflict {
					// Without a key, the first one is forgotten with its outcome: who looks just
					// then hears 409, by the one or the other word.
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := w.keys(record.FederationsPrefix); len(got) != 1 {
			t.Errorf("%d federations", len(got))
		}
	})
}

// lateWatch is a store of another instance whose watch stands still between hold and its next call.
func (w *world) lateWatch() (st *store.Store, hold func()) {
	var mu sync.Mutex
	open := make(chan struct{})
	close(open)
	release := func() {
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-open:
		default:
			close(open)
		}
	}
	w.t.Cleanup(release)
	gate := func() <-chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		return open
	}
	sent := 0 // transactions since hold
	st = w.net.Open(w.t, "late", store.Config{DialOptions: []grpc.DialOption{
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := open(ctx, d, cc, method, opts...)
			return heldStream{stream, gate}, err
		}),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			mu.Lock()
			sent++
			again := sent > 1
			mu.Unlock()
			if again {
				release()
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}),
	}})
	return st, func() {
		mu.Lock()
		defer mu.Unlock()
		open, sent = make(chan struct{}), 0
	}
}

// heldStream hands out what it receives when its gate is open.
type heldStream struct {
	grpc.ClientStream
	gate func() <-chan struct{}
}

func (s heldStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	<-s.gate()
	return err
}

// The same request through an instance that has not heard yet that another one accepted it joins it.
func TestTheSameRequestJoinsWhatAnotherInstanceHasJustAccepted(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["c"].does(silent)
		var first string
		st, hold := w.lateWatch()
		var once sync.Once
		late := startControlPlane(t, st, w.identity, func(c *controlplane.Config) {
			c.FailPoint = func(point string) {
				if point != "controlplane.after_specs" {
					return
				}
				once.Do(func() {
					hold()
					res, err := w.create(func(r *federations.CreateRequest) { r.Wait = 0 })
					if err != nil {
						t.Error(err)
						return
					}
					first = res.Federation.UID
				})
			}
		})
		res, err := late.Federations.CreateService(t.Context(), admin, send(t, body, func(r *federations.CreateRequest) { r.Wait = 0 }))
		if err != nil || res.Federation.UID != first {
			t.Errorf("%+v, %v; the other one has %s", res, err, first)
		}
		w.clusters["c"].does(yes)
	})
}
