package recovery

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// TestWhatATombstoneOrdersIsTold: what keeping the store's side does to a service that is ahead of its tombstone.
func TestWhatATombstoneOrdersIsTold(t *testing.T) {
	for want, d := range map[string]record.Desired{
		"it is deleted, as ordered; its buckets stay":                       {},
		"it is deleted, as ordered, with the buckets that were made for it": {Data: record.DataDelete},
		"it leaves its federation, as ordered, and runs on with its data":   {Keep: record.KeepRelease},
	} {
		d.Intent = record.IntentDelete
		got := differenceOf(&record.Federation{}, view.ReplicaState{Desired: &d, Observed: &record.Observed{}, At: record.Member{}}, record.Held{Kind: record.HeldAhead})
		if got.KeepStore != want || got.KeepCluster != "" || !got.tombstone {
			t.Errorf("%+v: %q, and %q", d, got.KeepStore, got.KeepCluster)
		}
	}
}

const ofOrphans = "0199c3a2-5f11-7000-8000-0000000000fe"

func orphanToken(uid string) string { return "token of " + uid }

// orphansOf has clusters with orphans of one federation, that carry our tokens if they carry no mark. What they do not say is as in
// others.
func orphansOf(t *testing.T, all map[string][]record.Orphan, more map[string]any) *view.View {
	t.Helper()
	for cluster, orphans := range all {
		for i := range orphans {
			o := &orphans[i]
			o.ServiceName, o.UID = cmp.Or(o.ServiceName, "s"), cmp.Or(o.UID, cluster)
			o.Federation, o.ClusterID, o.Mark = cmp.Or(o.Federation, ofOrphans), cluster, cmp.Or(o.Mark, record.Mark(orphanToken(o.UID)))
		}
		more[record.ClusterKey(cluster)] = record.Cluster{V: record.Version, ClusterID: cluster}
		more[record.ObservedClusterKey(cluster)] = record.ObservedCluster{V: record.Version, Orphans: orphans}
	}
	var kvs []store.KV
	for key, rec := range more {
		text, err := record.Encode(rec)
		if err != nil {
			t.Fatal(err)
		}
		kvs = append(kvs, store.KV{Key: key, Value: text, ModRevision: int64(len(kvs) + 1)})
	}
	return view.Of(kvs...)
}

// TestWhatComesBackOfALostFederation: a hostile cluster says of its part that it has the largest generation, or names its service
// twice. The federation comes back without that, and not at all if it is the coordinator.
func TestWhatComesBackOfALostFederation(t *testing.T) {
	one := func(generation int64) []record.Orphan { return []record.Orphan{{Generation: generation}} }
	origin := func(generation int64) []record.Orphan {
		return []record.Orphan{{Generation: generation, Settings: "mesh"}}
	}
	for name, c := range map[string]struct {
		a, b []record.Orphan
		back []string
	}{
		"as they can be":                        {origin(3), one(maxGeneration), []string{"a/s", "b/s"}},
		"a member above":                        {origin(3), one(maxGeneration + 1), []string{"a/s"}},
		"a member with the largest number":      {origin(3), one(math.MaxInt64), []string{"a/s"}},
		"a member below":                        {origin(3), one(math.MinInt64), []string{"a/s"}},
		"a coordinator with the largest number": {origin(math.MaxInt64), one(3), nil},
		"a member that is named twice":          {origin(3), slices.Concat(one(3), one(4)), []string{"a/s", "b/s"}},
		"a member under two names":              {origin(3), []record.Orphan{{}, {ServiceName: "t"}}, []string{"a/s", "b/s"}},
		"two coordinators":                      {origin(3), origin(3), nil},
		"a coordinator that is a member, too":   {slices.Concat(one(3), origin(3)), one(3), nil},
		"a member with a token of its own":      {origin(3), []record.Orphan{{Mark: "other"}}, []string{"a/s"}},
	} {
		v := orphansOf(t, map[string][]record.Orphan{"a": c.a, "b": c.b}, map[string]any{})
		var back []string
		for _, m := range lostFederations(v, orphanToken)[ofOrphans] {
			back = append(back, m.cluster+"/"+m.orphan.ServiceName)
		}
		if !slices.Equal(back, c.back) {
			t.Errorf("%s: %v come back", name, back)
		}
		for _, d := range differences(v, orphanToken) {
			if d.KeepCluster != "" && (d.ClusterID != "a" || c.back == nil) {
				t.Errorf("%s: of %s may be kept: %q", name, d.ClusterID, d.KeepCluster)
			}
		}
	}
}

// TestAnOrphanWithoutOurTokenIsNoMemberAgain: whoever knows the uid of a federation can name it.
func TestAnOrphanWithoutOurTokenIsNoMemberAgain(t *testing.T) {
	for mark, member := range map[string]bool{"": true, "other": false} {
		v := orphansOf(t, map[string][]record.Orphan{"b": {{Mark: mark}}}, map[string]any{
			record.FederationKey(ofOrphans): record.Federation{V: record.Version, UID: ofOrphans, Phase: record.PhaseReady},
		})
		all := differences(v, orphanToken)
		if len(all) != 1 || all[0].Federation != ofOrphans || (all[0].KeepCluster != "") != member {
			t.Errorf("with mark %q: %+v", mark, all)
		}
	}
}

// TestManyOrphansAreNotEachComparedWithTheWholeStore: a cluster with 3,000 of them, each of another federation, kept the state for
// a minute from whatever changes it, whenever somebody listed the differences.
func TestManyOrphansAreNotEachComparedWithTheWholeStore(t *testing.T) {
	const many = 300
	cost := func(clusters int) float64 {
		all := map[string][]record.Orphan{}
		for i := range clusters {
			all[fmt.Sprint("c", i)] = nil
		}
		for i := range many {
			all["c0"] = append(all["c0"], record.Orphan{ServiceName: fmt.Sprint("s", i), UID: fmt.Sprint(i), Federation: record.NewUID(), Settings: "mesh"})
		}
		v := orphansOf(t, all, map[string]any{})
		if all := differences(v, orphanToken); len(all) != many || all[0].KeepCluster == "" {
			t.Errorf("%d differ", len(all))
		}
		return testing.AllocsPerRun(1, func() { differences(v, orphanToken) })
	}
	if few, more := cost(1), cost(100); more > few+many {
		t.Errorf("%.0f allocations beside no cluster, and %.0f beside 99", few, more)
	}
}
