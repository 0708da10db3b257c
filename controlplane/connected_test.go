package controlplane_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestASyncerThatIsGoneIsTold: what is gone has no metrics of its own, so the control plane's say it. A cluster that never had
// a syncer, or is to have none, is no fault.
func TestASyncerThatIsGoneIsTold(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		metrics := prometheus.NewRegistry()
		w := newWorld(t, func(cfg *controlplane.Config) { cfg.Registry = metrics })
		if _, err := w.Clusters.Register(t.Context(), admin, clusters.Spec{ClusterID: "never", Endpoint: "https://never.example.org"}); err != nil {
			t.Fatal(err)
		}
		connected := func() map[string]float64 {
			families, err := metrics.Gather()
			if err != nil {
				t.Fatal(err)
			}
			told := map[string]float64{}
			for _, f := range families {
				if f.GetName() == "oscarfed_cluster_connected" {
					for _, m := range f.GetMetric() {
						told[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
					}
				}
			}
			return told
		}
		tells := func(want map[string]float64) {
			t.Helper()
			w.eventually(func() bool { return maps.Equal(connected(), want) })
		}
		tells(map[string]float64{"a": 1, "b": 1, "c": 1})
		w.mustCreate()
		w.clusters["c"].does(silent) // so that its removal waits
		if _, err := w.Clusters.Remove(t.Context(), admin, "c", clusters.RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		w.clusters["b"].disconnect()
		w.clusters["c"].disconnect()
		tells(map[string]float64{"a": 1, "b": 0})
		w.clusters["b"].connect()
		tells(map[string]float64{"a": 1, "b": 1})
	})
}

// TestTheEndOfASessionIsNotedByAClockThatWasSetBack: the end of the one before has a later date.
func TestTheEndOfASessionIsNotedByAClockThatWasSetBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		c, right := j.clusters["c"], j.clock.now()
		ends := func(at time.Time) {
			c.disconnect()
			<-time.After(time.Second)
			got, err := j.Clusters.Get(t.Context(), admin, "c")
			if err != nil {
				t.Fatal(err)
			}
			if got.LastSeen == nil || got.LastSeen.Sub(at).Abs() > time.Millisecond {
				t.Errorf("it was last seen at %v, and it was %s", got.LastSeen, at)
			}
		}
		j.clock.pass(time.Hour)
		ends(right.Add(time.Hour))
		c.connect()
		<-time.After(time.Second)
		j.clock.pass(-50 * time.Minute)
		ends(right.Add(10 * time.Minute))
	})
}

// The session of the cluster that had its id before ends after a cluster was registered: that one never connected.
func TestASessionOfAnEarlierRegistrationIsNotThisClusters(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		get := func(id string) clusters.Cluster {
			c, err := w.Clusters.Get(t.Context(), admin, id)
			if err != nil {
				t.Fatal(err)
			}
			return *c
		}
		w.eventually(func() bool { return get("b").Alive && get("c").Alive })
		if _, err := w.Clusters.Remove(t.Context(), admin, "b", clusters.RemoveOptions{Force: true, Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Clusters.Register(t.Context(), admin, clusters.Spec{ClusterID: "b", Endpoint: "https://b.example.org"}); err != nil {
			t.Fatal(err)
		}
		w.clusters["b"].disconnect()
		w.eventually(func() bool { return !get("b").Alive })
		w.clusters["c"].disconnect()
		w.eventually(func() bool { return get("c").LastSeen != nil })
		if b := get("b"); b.LastSeen != nil || !strings.Contains(b.Hint, "oscarfed cluster join b") {
			t.Errorf("it was last seen at %v: %s", b.LastSeen, b.Hint)
		}
	})
}

// No control plane ran when a cluster's session ended. What its syncer has reported says that it was there.
func TestAClusterThatWasLostUnseenIsNotToldToJoin(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.eventually(func() bool { b, err := w.Clusters.Get(t.Context(), admin, "b"); return err == nil && b.Alive })
		w.stop()
		w.clusters["b"].disconnect()
		again := startControlPlane(t, w.store, w.identity)
		b, err := again.Clusters.Get(t.Context(), admin, "b")
		if err != nil || b.Alive || strings.Contains(b.Hint, "cluster join") {
			t.Errorf("%+v, %v", b, err)
		}
	})
}
