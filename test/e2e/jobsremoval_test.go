package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestJobsOfAMemberThatLeavesDoNotWaitForEver: they came in at a worker that has no room, and wait when its cluster is
// removed. In a mesh the other members take them; in a star nobody may, and a person decides.
func TestJobsOfAMemberThatLeavesDoNotWaitForEver(t *testing.T) {
	for topology, want := range map[string]record.JobState{"mesh": record.JobSucceeded, "star": record.JobParked} {
		t.Run(topology, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) { jobsOfAMemberThatLeaves(t, topology, want) })
		})
	}
}

func jobsOfAMemberThatLeaves(t *testing.T, topology string, want record.JobState) {
	w := newWorld(t, func(o *world.Options) {
		o.Sim = func(c *oscarsim.Config) {
			world.QuickJobs(c)
			c.Nodes = []oscarsim.Node{{Name: "n", CPU: 1000, UsedCPU: 1000, RequestCPU: 1000, Memory: 1 << 30}} // full
		}
	})
	if _, err := create(w, strings.Replace(jobBody, `"star"`, fmt.Sprintf("%q", topology), 1)); err != nil {
		t.Fatal(err)
	}
	const event = "an event"
	id := w.Submit(names[2], event)
	w.Eventually("it waits", func() bool {
		job := w.Job(id)
		return job != nil && job.Reason == record.JobNoCandidate
	})
	removed(w, c, client.RemoveClusterOptions{})
	for _, id := range []string{a, b} {
		w.Cluster(id).Sim.SetNodes(oscarsim.Node{Name: "n", CPU: 64_000, Memory: 1 << 40})
	}
	job := w.AwaitJob(id, ended...)
	if job.State != want || want == record.JobParked && job.Reason != record.JobServiceGone {
		t.Errorf("%+v", job)
	}
	if n := w.Starts(event); want == record.JobSucceeded && n != 1 || want == record.JobParked && n != 0 {
		t.Errorf("it was started %d times", n)
	}
}
