package record_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/store/record"
)

// What is packed gives the same bytes again; what a QueuedJob cannot hold is not packed.
func TestQueuedJobsArePackedWithoutLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z<&"]{0,8}`)
		j := record.Job{
			V: record.Version, Job: record.NewUID(), Federation: record.NewUID(), GroupID: word.Draw(t, "group"), Owner: word.Draw(t, "owner"),
			Cluster: word.Draw(t, "cluster"), Service: word.Draw(t, "service"), By: word.Draw(t, "by"), RequestID: record.NewUID(),
			Request: rapid.SampledFrom([]string{"", strings.Repeat("0f", 32), strings.Repeat("0F", 32), "no hash"}).Draw(t, "request"),
			Size:    rapid.SampledFrom([]int{0, 1, 98304, -1, 1 << 40}).Draw(t, "size"), BucketEvent: rapid.Bool().Draw(t, "bucket"),
			State: record.JobQueued, Epoch: word.Draw(t, "epoch"),
			AcceptedAt: record.At(time.UnixMilli(rapid.Int64Range(-1e12, 4e12).Draw(t, "accepted"))),
			ChangedAt:  record.At(time.UnixMilli(rapid.Int64Range(-1e12, 4e12).Draw(t, "changed"))),
		}
		plain := j.Size >= 0 && j.Size < 1<<30
		switch rapid.IntRange(0, 8).Draw(t, "besides") {
		case 1:
			j.State, plain = record.JobAssigned, false
		case 2:
			j.Past, plain = []record.Attempt{{Attempt: 1}}, false
		case 3:
			j.Reason, plain = record.JobNoCandidate, false
		case 4:
			j.RequestID, plain = "mine", false
		case 5:
			j.Attempt, plain = 1, false
		}
		value, err := record.Encode(j)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.IntRange(0, 8).Draw(t, "newer") == 0 {
			value, plain = append(value[:len(value)-1:len(value)-1], `,"of_a_newer_version":1}`...), false
		}
		q, ok := record.PackJob(j.Job, value)
		if ok != plain && j.Request != strings.Repeat("0F", 32) {
			t.Fatalf("packed: %t, want %t: %s", ok, plain, value)
		}
		if !ok {
			return
		}
		again, err := q.Encode()
		if err != nil || string(again) != string(value) {
			t.Fatalf("%s %v, want %s", again, err, value)
		}
		if same, _ := record.PackJob(j.Job, value); same != q {
			t.Error("two of the same record differ")
		}
		if _, ok := record.PackJob(record.NewUID(), value); ok {
			t.Error("a record under another key was packed")
		}
	})
}
