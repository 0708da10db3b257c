package view

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// A creation asked, for each of all clusters, each other one for its OSCAR: with 2,000 clusters it
// was accepted after more than a second. What the indexes say is what a walk over all says.
func TestTheSameOscarIsFoundAsByAWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := newView()
		clusters := []string{"a", "b", "c", "d"}
		ids := rapid.SampledFrom([]string{"", "one", "two"})
		apply := func(key string, rec any, exists bool) {
			value, err := json.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			v.Revision++
			v.apply(key, store.KV{Key: key, Value: value, ModRevision: v.Revision}, exists)
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			cluster := rapid.SampledFrom(clusters).Draw(t, "cluster")
			exists := rapid.IntRange(0, 3).Draw(t, "exists") > 0
			switch rapid.IntRange(0, 2).Draw(t, "record") {
			case 0:
				at := time.Date(2026, 1, rapid.IntRange(1, 3).Draw(t, "day"), 0, 0, 0, 0, time.UTC)
				apply(record.ClusterKey(cluster), record.Cluster{
					V: 1, UID: "u-" + cluster, RegisteredAt: record.At(at), Joined: &record.Joined{OscarID: ids.Draw(t, "joined")},
				}, exists)
			case 1:
				apply(record.ObservedClusterKey(cluster), record.ObservedCluster{V: 1, OscarID: ids.Draw(t, "reported")}, exists)
			case 2:
				same := rapid.SampledFrom(append(clusters, "")).Draw(t, "told")
				apply(record.DesiredClusterKey(cluster), record.DesiredCluster{V: 1, SameOscarAs: same}, exists)
			}
		}
		for _, cluster := range clusters {
			first, with := "", map[string]bool{cluster: true}
			id := v.OscarID(cluster)
			for other, reg := range v.Clusters.All() {
				if other == cluster || id == "" || v.OscarID(other) != id {
					continue
				}
				with[other] = true
				if first == "" || earlier(reg.Rec, v.Clusters.Get(first).Rec) {
					first = other
				}
			}
			for other, n := range v.Nodes.All() {
				if d := n.DesiredSelf.Rec; d != nil && d.SameOscarAs == cluster {
					with[other] = true
				}
			}
			if got := v.RegisteredAs(id, cluster); got != first {
				t.Errorf("the OSCAR of %s is registered as %q, want %q", cluster, got, first)
			}
			got := v.WithOscarOf(cluster)
			for other := range with {
				if !got[other] {
					t.Errorf("%s has to do with %s, too: %v", other, cluster, got)
				}
			}
			if len(got) != len(with) {
				t.Errorf("with %s: %v, want %v", cluster, got, with)
			}
		}
	})
}
