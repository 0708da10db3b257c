package controlplane_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/test/await"
)

const txnMethod = "/etcdserverpb.KV/Txn"

// newcomer is an instance on an empty store, which st reaches undisturbed.
func newcomer(t *testing.T) (cp *controlplane.ControlPlane, faults *storetest.Faults, log *await.Output, st *store.Store) {
	t.Helper()
	faults, log = new(storetest.Faults), new(await.Output)
	net := virtual.NewNetwork(t, embedded.Config{})
	st = net.Open(t, "test", store.Config{})
	disturbed := net.Open(t, "controlplane", store.Config{DialOptions: faults.DialOptions()})
	cp, err := controlplane.New(controlplane.Config{
		Store: disturbed, Identity: newIdentity(t), Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return cp, faults, log, st
}

func TestAStartWaitsForAnEtcdThatGoesAway(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		cp, faults, log, st := newcomer(t)
		faults.FailCalls(txnMethod, 1_000_000, rpctypes.ErrGRPCTimeout)
		ended := make(chan error, 1)
		runUntilEnd(t, func(ctx context.Context) { ended <- cp.Run(ctx) })
		for deadline := time.Now().Add(patience); !strings.Contains(log.String(), "it is not prepared yet"); {
			select {
			case err := <-ended:
				t.Fatalf("it has ended: %v", err)
			case <-time.After(20 * time.Millisecond):
				if time.Now().After(deadline) {
					t.Fatal("it says nothing")
				}
			}
		}
		if h := cp.Health(t.Context()); h.OK {
			t.Errorf("it calls itself healthy: %+v", h)
		}
		faults.FailCalls(txnMethod, 0, nil)
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		case <-cp.Ready():
		case <-time.After(patience):
			t.Fatal("it does not go on when etcd is back")
		}
		if kv, err := st.Get(t.Context(), record.MetaKey); err != nil || kv.ModRevision != kv.CreateRevision {
			t.Errorf("the store was founded as %+v: %v", kv, err)
		}
	})
}

func TestAStartEndsOnWhatNoWaitingMends(t *testing.T) {
	for name, method := range map[string]string{"it may not write": txnMethod, "it may not read": "/etcdserverpb.KV/Range"} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				cp, faults, _, _ := newcomer(t)
				faults.FailCalls(method, 1_000_000, rpctypes.ErrGRPCPermissionDenied)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := cp.Run(ctx); !errors.Is(err, store.ErrDenied) || ctx.Err() != nil {
					t.Errorf("it ends with %v", err)
				}
			})
		})
	}
}
