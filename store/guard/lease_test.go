package guard

import (
	"context"
	"testing"
	"testing/synctest"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// leasingEtcd tells the keys of leases when it is told to.
type leasingEtcd struct{ slowEtcd }

func (e *leasingEtcd) LeaseKeys(context.Context, string, int64) ([]string, error) {
	e.reads.Add(1)
	<-e.answers
	return nil, nil
}

// A cluster may have all of its keys end with one lease, and all of its requests could have them
// built at once.
func TestKeysOfLeasesAreReadOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := &leasingEtcd{slowEtcd: slowEtcd{answers: make(chan struct{})}}
		g := New(Config{Etcd: etcd})
		c := &call{Guard: g, user: g.userOf("a"), next: func(ctx context.Context, _ any) (any, error) {
			_, err := etcd.LeaseKeys(ctx, "a", 0)
			return &pb.LeaseTimeToLiveResponse{}, err
		}}
		for range 3 {
			go func() {
				_, _ = c.do(t.Context(), &pb.LeaseTimeToLiveRequest{ID: g.leaseOf("a"), Keys: true}) // of its own
			}()
			go func() {
				_, _ = c.do(t.Context(), &pb.LeaseRevokeRequest{ID: g.leaseOf("b")}) // of another
			}()
		}
		synctest.Wait()
		if n := etcd.reads.Load(); n != 1 {
			t.Errorf("the keys of %d leases are read at once", n)
		}
		close(etcd.answers)
	})
}
