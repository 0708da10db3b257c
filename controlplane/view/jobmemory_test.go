package view

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// queuedJobBytes is what the read model has for each queued job, beside the packed record that it
// shares with the mirror.
const queuedJobBytes = 260

// What waits for its first attempt costs the read model little: a million jobs are to be at home in
// one control plane.
func TestAQueuedJobTakesFewBytes(t *testing.T) {
	const jobs, federations = 50_000, 150
	v := newView()
	packed := make([]record.QueuedJob, jobs)
	epoch, at := record.NewUID(), record.At(time.Now())
	uids := make([]string, federations)
	for i := range uids {
		uids[i] = record.NewUID()
	}
	for i := range packed {
		j := record.Job{
			V: record.Version, Job: record.NewUID(), Federation: uids[i%federations], GroupID: fmt.Sprint("group-", i%federations),
			Owner: fmt.Sprint("owner-", i%50), By: fmt.Sprint("sender-", i%100), Cluster: fmt.Sprint("cluster-", i%20), Service: "grayify",
			RequestID: record.NewUID(), Size: 1 << 10, State: record.JobQueued, AcceptedAt: at, ChangedAt: at, Epoch: epoch,
		}
		value, err := record.Encode(j)
		if err != nil {
			t.Fatal(err)
		}
		q, ok := record.PackJob(j.Job, value)
		if !ok {
			t.Fatalf("not packed: %s", value)
		}
		packed[i] = q
	}
	before := heapInUse()
	for i := range packed {
		v.applyQueued(packed[i].Job().Job, &packed[i], int64(i))
		clear(v.news.Jobs)
	}
	each := (heapInUse() - before) / jobs
	t.Logf("%d bytes a job", each)
	if each > queuedJobBytes {
		t.Errorf("the read model has %d bytes for each queued job, and %d are allowed", each, queuedJobBytes)
	}
	for i := range packed { // and it forgets what is gone
		v.apply(record.JobKey(packed[i].Job().Job), store.KV{}, false)
	}
	if n := v.Jobs.Order.Len() + len(v.Jobs.ByID.m) + v.Jobs.Queued.Len() + v.Jobs.Subjects.Len() + v.Jobs.Services.Len() + v.Jobs.Clusters.Len() + v.Jobs.Begun.Len() + len(v.Jobs.ByFederation.m); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	runtime.KeepAlive(packed)
}

// heapInUse is what is in use after a collection.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
