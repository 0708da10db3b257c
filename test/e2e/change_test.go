package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

var admin = identity.Caller{Subject: identity.Admin, Administrator: true}

// TestAChangeReachesEveryCluster: a new definition, a member that comes and one
// that goes, through the real syncers.
func TestAChangeReachesEveryCluster(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const d = "oscar-cluster-d"
		w := newWorld(t, func(o *world.Options) { o.Clusters = []string{a, b, c, d} })
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		s := world.Service(t, strings.Replace(body, "0.5Gi", "1Gi", 1))
		if _, err := w.CP.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: limit}); err != nil {
			t.Fatal(err)
		}
		for i, id := range []string{a, b, c} {
			v, ok := w.Cluster(id).Sim.Service(names[i])
			if !ok || !strings.Contains(string(v.JSON), `"memory":"1Gi"`) || v.Secrets["KEY"] != "canary-environment-secret" {
				t.Errorf("%s: %s %v", id, v.JSON, v.Secrets)
			}
		}
		add := oscar.Member{Type: "oscar", ClusterID: d, ServiceName: "grayifyr3"}
		remove := oscar.Member{Type: "oscar", ClusterID: c, ServiceName: names[2]}
		_, err := w.CP.Federations.ChangeReplicas(t.Context(), admin, names[0], federations.ReplicasRequest{
			Add: []oscar.Member{add}, Remove: []oscar.Member{remove}, Wait: limit,
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(w.Cluster(d).Sim.Services(), "grayifyr3") {
			t.Error("the added member was not deployed")
		}
		w.Eventually("the removed member is gone", func() bool {
			return !slices.Contains(w.Cluster(c).Sim.Services(), names[2])
		})
		if _, err := w.CP.Federations.DeleteService(t.Context(), admin, names[0], federations.DeleteOptions{Wait: limit}); err != nil {
			t.Fatal(err)
		}
		if left := w.Cluster(d).Sim.Services(); slices.Contains(left, "grayifyr3") {
			t.Errorf("left on %s: %v", d, left)
		}
	})
}

// TestAFailingReplicaTakesNoHealthyOneDown: a change that one OSCAR refuses is
// applied by the others, and by that one when its fault is gone.
func TestAFailingReplicaTakesNoHealthyOneDown(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		sim := w.Cluster(b).Sim
		if err := sim.SetFault(oscarsim.Fault{Op: oscarsim.OpUpdate, Fault: oscarsim.Fault500}); err != nil {
			t.Fatal(err)
		}
		s := world.Service(t, strings.Replace(body, "0.5Gi", "1Gi", 1))
		if _, err := w.CP.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("the replica is degraded with its cause", func() bool {
			v, err := w.Client.Replicas(t.Context(), names[0], "")
			return err == nil && v.Phase == "degraded"
		})
		for i, id := range []string{a, c} {
			if v, ok := w.Cluster(id).Sim.Service(names[2*i]); !ok || !strings.Contains(string(v.JSON), `"memory":"1Gi"`) {
				t.Errorf("%s: %s", id, v.JSON)
			}
		}
		sim.ClearFaults()
		w.Eventually("it is repaired without anybody's help", func() bool { return ready(w) })
	})
}

// TestAChangeThatIsRenderedAgainOverwritesNoSpec: clusters are cordoned and
// uncordoned all the time while members come and go, so that attempts are lost and
// rendered again. That no spec was written twice is looked at afterwards, as in
// every test.
func TestAChangeThatIsRenderedAgainOverwritesNoSpec(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const d = "oscar-cluster-d"
		w := newWorld(t, func(o *world.Options) { o.Clusters = []string{a, b, c, d} })
		if _, err := create(w, strings.Replace(body, `,
{"type":"oscar","cluster_id":"oscar-cluster-c","service_name":"grayifyr2"}`, "", 1)); err != nil {
			t.Fatal(err)
		}
		stop := world.Background(t, func(ctx context.Context) error {
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(time.Duration(min(2+i, 500)) * time.Millisecond): // seldom enough in the end for any machine
				}
				if _, err := w.CP.Clusters.SetState(ctx, admin, d, []string{"cordoned", "active"}[i%2]); err != nil && ctx.Err() == nil {
					return err
				}
			}
		})
		m := []oscar.Member{{Type: "oscar", ClusterID: c, ServiceName: names[2]}}
		for range 3 {
			if _, err := w.CP.Federations.ChangeReplicas(t.Context(), admin, names[0], federations.ReplicasRequest{Add: m, Wait: limit}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.CP.Federations.ChangeReplicas(t.Context(), admin, names[0], federations.ReplicasRequest{Remove: m, Wait: limit}); err != nil {
				t.Fatal(err)
			}
			w.Eventually("its tombstone is acknowledged", func() bool { return len(w.Keys(record.DesiredServicesPrefix(c))) == 0 })
		}
		stop()
	})
}

// TestRollbackPauseAndCordonThroughTheAPI with everything real but the OSCARs.
func TestRollbackPauseAndCordonThroughTheAPI(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Client.ChangeService(t.Context(), world.Service(t, strings.Replace(body, "0.5Gi", "1Gi", 1)), client.ChangeOptions{Wait: limit}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Client.Rollback(t.Context(), names[0], 1, client.ChangeOptions{Wait: limit}); err != nil {
			t.Fatal(err)
		}
		h, err := w.Client.History(t.Context(), names[1], "")
		if err != nil || len(h) != 3 || h[0].Generation != 3 || !strings.Contains(string(h[0].Service), "0.5Gi") || !strings.Contains(string(h[1].Service), "1Gi") {
			t.Errorf("%+v %v", h, err)
		}
		if v, ok := w.Cluster(b).Sim.Service(names[1]); !ok || !strings.Contains(string(v.JSON), `"memory":"0.5Gi"`) {
			t.Errorf("the rollback did not reach %s: %s", b, v.JSON)
		}

		if v, err := w.Client.Pause(t.Context(), names[0], "", true); err != nil || v.Generation != 3 {
			t.Fatal(v, err)
		}
		w.DeleteDirectly(w.Cluster(b).URL + "/system/services/" + names[1])
		w.Eventually("the loss is seen", func() bool {
			v, err := w.Client.Replicas(t.Context(), names[1], "")
			return err == nil && v.Self.Status.Phase == "drifted"
		})
		if slices.Contains(w.Cluster(b).Sim.Services(), names[1]) {
			t.Error("a paused federation was repaired")
		}
		if _, err := w.Client.Pause(t.Context(), names[0], "", false); err != nil {
			t.Fatal(err)
		}
		w.Eventually("it is repaired when the pause ends", func() bool { return ready(w) && slices.Contains(w.Cluster(b).Sim.Services(), names[1]) })

		if v, err := w.Client.SetClusterState(t.Context(), c, "cordoned"); err != nil || v.State != "cordoned" {
			t.Fatal(v, err)
		}
		other := strings.NewReplacer("grayify", "other").Replace(body)
		if _, err := create(w, other); codeOf(err) != "invalid" {
			t.Error("a cordoned cluster took something new:", err)
		}
		if _, err := w.Client.SetClusterState(t.Context(), c, "active"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Client.SetClusterState(t.Context(), c, "asleep"); codeOf(err) != "invalid" {
			t.Error(err)
		}
		if _, err := w.Client.Rollback(t.Context(), names[0], 77, client.ChangeOptions{}); codeOf(err) != "not_found" {
			t.Error(err)
		}
	})
}
