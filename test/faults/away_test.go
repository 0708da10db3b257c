package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestAClusterAwayForAMonth: while it is away one federation is changed again and
// again, one is deleted, one is created without it and one is refused; a month
// passes, everything old is swept and etcd forgets its history. When it is back it
// finds its tombstone, the newest generation, and nothing else; buckets stay.
func TestAClusterAwayForAMonth(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const c = "oscar-cluster-c"
		clock := &world.Clock{}
		w := newWorld(t, world.Options{Forgets: true, ControlPlane: func(cfg *controlplane.Config) {
			cfg.Now, cfg.SweepInterval = clock.Now, 100*time.Millisecond
		}})
		mustCreate(w, "alpha")
		mustCreate(w, "beta")
		sim := w.Cluster(c).Sim
		token := func() string { v, _ := sim.Service("alpha2"); return v.Token }
		was := token()
		mustChange(w, "beta", "300Mi") // a worker's PUT makes its bucket
		stands(w, "beta", "300Mi")
		sim.PutBucket("beta0", "in/of-a-month-ago")
		w.Cluster(c).Stop()
		for _, memory := range []string{"300Mi", "400Mi", "500Mi"} {
			mustChange(w, "alpha", memory)
		}
		mustDelete(w, "beta")
		w.Eventually("beta is gone where somebody is there to do it", func() bool {
			return len(w.Keys(record.DesiredServicesPrefix("oscar-cluster-b"))) == 1
		})
		// Its name is free, and its place on the cluster that is away is not.
		if status, _, text := w.Do("POST", "/system/services", fdl("beta", "256Mi")); status != 409 || !strings.Contains(text, "oscar-cluster-c/beta2") {
			t.Errorf("a creation over a pending tombstone: %d %s", status, text)
		}
		for range 30 {
			w.Pass(clock.Advance, 24*time.Hour)
		}
		touch(w)
		w.Eventually("what is a month old is swept", func() bool { return len(w.Keys(record.RequestsPrefix)) == 0 })
		storetest.Compact(t, w.As(access.Root), w.Revision())
		tombstone, err := w.Store.Get(t.Context(), record.DesiredServiceKey(c, "beta2"))
		if err != nil {
			t.Fatal("the tombstone was swept:", err)
		}
		if d, err := store.Decode[record.Desired](tombstone); err != nil || !d.Tombstone() {
			t.Errorf("%+v %v", d, err)
		}
		if got := w.Keys(record.DeletedPrefix); len(got) != 2 {
			t.Errorf("deletions of a month ago are remembered for 90 days; there are %v", got)
		}

		w.Cluster(c).Start()
		stands(w, "alpha", "500Mi")
		isGone(w, "beta")
		w.Eventually("the tombstone is acknowledged", func() bool { return len(w.Keys(record.DesiredServicesPrefix(c))) == 1 })
		if token() != was {
			t.Error("the service was made anew instead of changed")
		}
		if b, ok := sim.Bucket("beta0"); !ok || !slices.Contains(b.Objects, "in/of-a-month-ago") {
			t.Errorf("the bucket of the deleted service is %+v", b)
		}
		if calls := sim.Calls(); calls["delete"] != 1 {
			t.Errorf("%d deletes were sent, for one tombstone", calls["delete"])
		}
		mustCreate(w, "beta")
	})
}

// touch makes the control planes look again at what is on each cluster: their timers
// know nothing of a clock that was moved.
func touch(w *world.World) {
	w.T.Helper()
	for _, id := range clusterIDs {
		spec := v1.ClusterSpec{ClusterID: id, Endpoint: w.Cluster(id).URL, Labels: map[string]string{"touched": fmt.Sprint(time.Now().UnixNano())}}
		if _, err := w.Client.UpdateCluster(w.T.Context(), spec); err != nil {
			w.T.Fatal(err)
		}
	}
}

// TestCompactionToHeadWhileASyncerIsPaused: a syncer is cut off for so long that
// its session ends, and etcd forgets all that happened meanwhile: a change, a
// deletion, a creation that was refused. It lists again, and absence in that list is
// no order.
func TestCompactionToHeadWhileASyncerIsPaused(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const b = "oscar-cluster-b"
		clock := &world.Clock{}
		net := wire.New(1)
		w := newWorld(t, world.Options{Wire: net, Forgets: true, ControlPlane: func(cfg *controlplane.Config) { cfg.Now = clock.Now }})
		mustCreate(w, "alpha")
		mustCreate(w, "beta")
		sim := w.Cluster(b).Sim
		before := sim.Calls()
		heal := net.Cut(world.HostSyncer(b), world.HostEtcd)
		w.Eventually("its session has ended", func() bool {
			_, err := w.Store.Get(t.Context(), record.SessionKey(b))
			return err != nil
		})
		mustChange(w, "alpha", "400Mi")
		mustDelete(w, "beta")
		res := make(chan error, 1)
		go func() { res <- createIn(w, w.Client, "gamma") }()
		w.Eventually("a creation waits for its vote", func() bool {
			v, err := w.Client.Replicas(t.Context(), "gamma0", "")
			return err == nil && v.Phase == "preparing"
		})
		clock.Advance(time.Hour)
		touch(w)
		if code := clientCode(<-res); code != "unavailable" {
			t.Errorf("the creation was answered %q", code)
		}
		if now := sim.Calls(); now["create"] != before["create"] || now["update"] != before["update"] || now["delete"] != before["delete"] {
			t.Errorf("it wrote without its session: %v after %v", now, before)
		}
		storetest.Compact(t, w.As(access.Root), w.Revision())
		heal()
		stands(w, "alpha", "400Mi")
		isGone(w, "beta")
		if calls := sim.Calls(); calls["create"] != before["create"] || calls["delete"] != before["delete"]+1 {
			t.Errorf("calls %v after %v: one deletion was ordered, and no creation", calls, before)
		}
		mustCreate(w, "gamma")
	})
}
