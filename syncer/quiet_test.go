package syncer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestAnIdleSyncerAsksEtcdNothing: thousands of them share one etcd. All that a full compare has to
// know is in the mirror, which a watch follows.
func TestAnIdleSyncerAsksEtcdNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		var idle atomic.Bool
		asked := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if idle.Load() {
				t.Errorf("%s: %v", method, req)
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		r.start(func(c *syncer.Config) {
			c.Store = r.open("syncer", store.Config{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(asked)}})
		})
		r.makeReady(newReplica("grayify"))
		<-time.After(10 * time.Minute) // what the creation left to be told is told
		idle.Store(true)
		compared := r.sim.Calls()[oscarsim.OpList]
		<-time.After(time.Hour)
		if r.sim.Calls()[oscarsim.OpList] == compared {
			t.Error("OSCAR was not listed")
		}
		idle.Store(false)
	})
}
