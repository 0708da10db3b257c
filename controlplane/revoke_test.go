package controlplane_test

import (
	"context"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/await"
)

// noUsers are those of an etcd that knows none.
type noUsers struct{}

// KeepUsers implements clusters.Users.
func (noUsers) KeepUsers(context.Context, func(context.Context) (access.Wanted, error)) error {
	return nil
}

// TestACountOfBeforeRevokesNoLaterRegistration: an instance has seen that a cluster writes too much. Before its write comes to
// etcd, another instance has revoked the cluster and an administrator has readmitted it, or registered another one in its place.
func TestACountOfBeforeRevokesNoLaterRegistration(t *testing.T) {
	for name, meanwhile := range map[string]func(*world, *fakeSyncer){
		"readmitted": func(w *world, c *fakeSyncer) {
			w.revoked(c)
			w.readmittedAt(w.ControlPlane, c)
		},
		"registered anew": (*world).replace,
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				c := w.clusters["c"]
				faults := new(storetest.Faults)
				st := w.net.Open(t, "counts", store.Config{DialOptions: faults.DialOptions()})
				startControlPlane(t, st, w.identity, func(cfg *controlplane.Config) {
					cfg.Limits, cfg.Users = access.Limits{Rate: 0.02}, noUsers{} // five writes at once
				})
				c.disconnect()
				<-time.After(time.Second) // both have noted it
				reached := make(chan struct{})
				faults.BeforeWrite(func() {
					defer close(reached)
					meanwhile(w, c)
				})
				for n := range 6 {
					w.put(record.ObservedClusterKey(c.cluster), record.ObservedCluster{V: record.Version, Recipient: c.identity.Recipient(), QueueS: int64(n) + 1})
				}
				<-reached
				<-time.After(time.Minute) // it decides anew
				reg, err := w.Clusters.Get(t.Context(), admin, c.cluster)
				if err != nil || reg.Revoked != nil || reg.State != string(record.ClusterActive) {
					t.Errorf("its registration is %+v, %v", reg, err)
				}
			})
		})
	}
}

// replace removes a cluster and registers another one under its id.
func (w *world) replace(p *fakeSyncer) {
	w.t.Helper()
	if _, err := w.Clusters.Remove(w.t.Context(), admin, p.cluster, clusters.RemoveOptions{Force: true, Wait: patience}); err != nil {
		w.t.Error(err)
	}
	if _, err := w.Clusters.Register(w.t.Context(), admin, clusters.Spec{ClusterID: p.cluster, Endpoint: "https://new.example.org"}); err != nil {
		w.t.Error(err)
	}
}
