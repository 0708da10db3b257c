package view

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// replicaBytes is what the read model has for each replica and its share of a federation of four, beside the
// values of their records, which it shares with the mirror.
const replicaBytes = 1700

func TestAReplicaTakesFewBytes(t *testing.T) {
	const federations, members = 5_000, 4
	var kvs []store.KV
	at := record.At(time.Now())
	add := func(key string, rec any) {
		value, err := record.Encode(rec)
		if err != nil {
			t.Fatal(err)
		}
		kvs = append(kvs, store.KV{Key: key, Value: value, ModRevision: int64(len(kvs) + 1)})
	}
	const hash = "sha256:c9c5f04d2cc9996c29fe369b147d0d5ea5c633e47a6382a83d4d8212877352f7"
	for i := range federations {
		f := record.Federation{
			V: record.Version, UID: record.NewUID(), Owner: fmt.Sprint("owner-", i%1000), GroupID: fmt.Sprint("crowd-", i), Generation: 1, Phase: record.PhaseReady,
			RequestID: record.NewUID(), Topology: "mesh", Delegation: "static", CreatedAt: at, ChangedAt: at,
		}
		for j := range members {
			cluster, name := fmt.Sprintf("edge-%04d", (i+j)%1000), f.GroupID
			m := record.Member{Type: "oscar", ClusterID: cluster, ServiceName: name, UID: record.NewUID(), Coordinator: j == 0}
			f.Members = append(f.Members, m)
			add(record.DesiredServiceKey(cluster, name), record.Desired{
				V: record.Version, Intent: record.IntentApply, Federation: f.UID, GroupID: f.GroupID, UID: m.UID, Generation: 1, RequestID: f.RequestID,
				Owner: f.Owner, Drift: "enforce", Spec: name + "/" + m.UID + ".1", Mark: fmt.Sprintf("sha256:%064x", i*members+j), Deadline: &at, DeadlineS: 600,
			})
			add(record.ObservedServiceKey(cluster, name), record.Observed{
				V: record.Version, Phase: record.PhaseReady, UID: m.UID, ObservedGeneration: 1, DesiredRevision: 1, ReadBack: hash, Reason: "Applied",
				BucketsMade: []string{name}, Buckets: []string{name}, LastTransitionTime: at,
			})
		}
		add(record.FederationKey(f.UID), f)
	}
	before := heapInUse()
	v := newView()
	for _, kv := range kvs {
		v.apply(kv.Key, kv, true)
		v.news = newChanges()
	}
	each := (heapInUse() - before) / (federations * members)
	t.Logf("%d bytes a replica", each)
	if each > replicaBytes {
		t.Errorf("the read model has %d bytes for each replica, and %d are allowed", each, replicaBytes)
	}
	runtime.KeepAlive(kvs)
	runtime.KeepAlive(v)
}
