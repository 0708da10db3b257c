package store

import (
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// queuedJobBytes is what a mirror has for each queued job: its key, its packed record, and its place
// in the tree.
const queuedJobBytes = 240

func TestAQueuedJobTakesFewBytesInAMirror(t *testing.T) {
	const jobs = 50_000
	m := (&Store{}).NewMirror(MirrorConfig{Prefixes: []string{record.Root}, PackJobs: true, Logger: slog.New(slog.DiscardHandler)})
	federation, epoch, at := record.NewUID(), record.NewUID(), record.At(time.Now())
	before := heapInUse()
	var last KV
	for i := range jobs {
		j := record.Job{
			V: record.Version, Job: record.NewUID(), Federation: federation, GroupID: "group", Owner: "owner", Cluster: "cluster", Service: "grayify",
			RequestID: record.NewUID(), Size: 1 << 10, State: record.JobQueued, AcceptedAt: at, ChangedAt: at, Epoch: epoch,
		}
		value, err := record.Encode(j)
		if err != nil {
			t.Fatal(err)
		}
		last = KV{Key: record.JobKey(j.Job), Value: value, CreateRevision: int64(i + 1), ModRevision: int64(i + 1)}
		m.apply([]change{{kv: last}}, last.ModRevision)
	}
	each := (heapInUse() - before) / jobs
	t.Logf("%d bytes a job", each)
	if each > queuedJobBytes {
		t.Errorf("a mirror has %d bytes for each queued job, and %d are allowed", each, queuedJobBytes)
	}
	got, ok := m.Snapshot().KV(last.Key)
	if !ok || string(got.Value) != string(last.Value) || got.ModRevision != last.ModRevision || got.CreateRevision != last.CreateRevision {
		t.Errorf("the mirror has %+v, want %+v", got, last)
	}
	if q, rev, ok := m.Snapshot().QueuedJob(last.Key); !ok || rev != last.ModRevision || record.JobKey(q.Job().Job) != last.Key {
		t.Error("it is not packed")
	}
}

// heapInUse is what is in use after a collection.
func heapInUse() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
