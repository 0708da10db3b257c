package request

import (
	"fmt"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// BenchmarkAChangedJobIsCounted is what each change of a job costs under the mirror's lock.
func BenchmarkAChangedJobIsCounted(b *testing.B) {
	u := newUsage(time.Now, time.Minute)
	kvs := make([]store.KV, 1000)
	for i := range kvs {
		at := record.At(time.Now())
		j := record.Job{
			V: record.Version, Job: record.NewUID(), Federation: record.NewUID(), GroupID: "group", Owner: fmt.Sprint("owner-", i%50),
			By: fmt.Sprint("sender-", i%100), Cluster: "cluster-1", Service: "grayify", RequestID: record.NewUID(), Size: 1 << 10,
			State: record.JobQueued, AcceptedAt: at, ChangedAt: at, Epoch: record.NewUID(),
		}
		value, err := record.Encode(j)
		if err != nil {
			b.Fatal(err)
		}
		kvs[i] = store.KV{Key: record.JobKey(j.Job), Value: value}
		u.Changed(kvs[i], false)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		u.Changed(kvs[i%len(kvs)], false)
		i++
	}
}
