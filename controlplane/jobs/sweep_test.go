package jobs

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// ended is jobs in the order in which they were accepted: those that have ended, but for the one that waits, of two
// accounts with two federations each.
func ended(t *testing.T) *view.View {
	t.Helper()
	var kvs []store.KV
	at := record.At(time.Now())
	add := func(account, federation string, state record.JobState) {
		j := record.Job{
			V: record.Version, Job: fmt.Sprintf("job-%02d", len(kvs)), Federation: federation, GroupID: federation, Owner: "owner", By: account,
			Cluster: "cluster", Service: federation, State: state, AcceptedAt: at, ChangedAt: at,
		}
		kvs = append(kvs, stored(t, &j, int64(len(kvs)+1)))
	}
	for range 2 {
		add("alice", "a", record.JobSucceeded) // 0, 5
		add("alice", "b", record.JobFailed)    // 1, 6
		add("alice", "b", record.JobQueued)    // 2, 7
		add("bob", "c", record.JobSucceeded)   // 3, 8
		add("bob", "d", record.JobCancelled)   // 4, 9
	}
	return view.Of(kvs...)
}

func TestEndedJobsAreBoundedOldestFirst(t *testing.T) {
	const many = 100
	v := ended(t)
	for name, tc := range map[string]struct {
		keep Kept
		old  int64 // up to this revision they ended long ago
		want []string
	}{
		"none is too many":                      {keep: Kept{many, many, many}},
		"of each federation":                    {keep: Kept{1, many, many}, want: []string{"job-00", "job-01", "job-03", "job-04"}},
		"of each account, whatever federations": {keep: Kept{many, 3, many}, want: []string{"job-00", "job-03"}},
		"of all":                                {keep: Kept{many, many, 5}, want: []string{"job-00", "job-01", "job-03"}},
		"what is forgotten counts for no bound": {keep: Kept{1, 2, 3}, want: []string{"job-00", "job-01", "job-03", "job-04", "job-05"}},
		"old ones":                              {keep: Kept{many, many, many}, old: 4, want: []string{"job-00", "job-01", "job-03"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, j := range oldJobs(endedJobs(v), func(revision int64) bool { return revision <= tc.old }, tc.keep) {
				got = append(got, j.id)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("forgotten are %q, not %q", got, tc.want)
			}
		})
	}
}

// A job that took long has just ended. Others that were accepted after it had ended before it.
func TestAJobThatHasJustEndedIsKept(t *testing.T) {
	at := record.At(time.Now())
	one := func(id string, by string, revision int64) store.KV {
		return stored(t, &record.Job{
			V: record.Version, Job: id, Federation: "f", GroupID: "f", Owner: "owner", By: by, Cluster: "cluster", Service: "f",
			State: record.JobFailed, AcceptedAt: at, ChangedAt: at,
		}, revision)
	}
	v := view.Of(one("job-00", "alice", 9), one("job-01", "bob", 3), one("job-02", "bob", 5), one("job-03", "alice", 4))
	const many = 100
	for name, tc := range map[string]struct {
		keep Kept
		want []string
	}{
		"of its federation": {Kept{2, many, many}, []string{"job-01", "job-03"}},
		"of its account":    {Kept{many, 1, many}, []string{"job-01", "job-03"}},
		"of all":            {Kept{many, many, 1}, []string{"job-01", "job-02", "job-03"}},
	} {
		var got []string
		for _, j := range oldJobs(endedJobs(v), func(int64) bool { return false }, tc.keep) {
			got = append(got, j.id)
		}
		slices.Sort(got)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: forgotten are %q, not %q", name, got, tc.want)
		}
	}
}
