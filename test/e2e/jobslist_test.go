package e2e_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/world"
)

// jobsSeen: a user that may see a service sees its jobs; others find none.
func jobsSeen(t *testing.T, w *world.World, owner *client.Client) {
	bob := w.WithToken(w.Token("bob", nil))
	hidden := submit(t, owner, privateJobs)
	if j := world.Must(owner.Job(t.Context(), hidden))(t); j.Owner != alice || j.By != alice {
		t.Errorf("alice sees %+v", j)
	}
	authorization := "Bearer " + w.Token("bob", nil)
	asks := []ask{
		{"GET", "/system/jobs/SERVICE", "", true}, {"GET", "/system/jobs/SERVICE?watch=true", "", true}, {"GET", "/system/jobs/SERVICE/explain", "", true},
		{"POST", "/system/jobs/SERVICE/cancel", "", false}, {"POST", "/system/jobs/SERVICE/replay", "", false},
		{"POST", "/system/jobs/SERVICE/resolve", `{"state":"vanished"}`, false},
	}
	const absent = "01a1fba2-2ce8-76eb-9990-7ae70e124361"
	for _, q := range asks {
		if got, nothing := answerTo(w, q, hidden, authorization), answerTo(w, q, absent, authorization); got != nothing || !strings.HasPrefix(got, "404 ") {
			t.Errorf("bob asks %s %s of alice's job:\n%s\nand if it is not there:\n%s", q.method, q.path, got, nothing)
		}
	}
	if list := world.Must(bob.Jobs(t.Context(), client.JobQuery{Service: privateJobs, Counts: true}))(t); len(list.Jobs) > 0 || len(list.Counts) > 0 {
		t.Errorf("bob's list: %+v", list)
	}
	// The other service is public: its jobs are seen, and not whose they are.
	seen, own := submit(t, owner, names[0]), submit(t, bob, names[0])
	if j := world.Must(bob.Job(t.Context(), seen))(t); j.By != "" {
		t.Errorf("bob sees who sent %+v", j)
	}
	if _, err := bob.CancelJob(t.Context(), seen); codeOf(err) != v1.CodeForbidden {
		t.Errorf("bob cancels alice's job: %v", err)
	}
	if j := world.Must(bob.Job(t.Context(), own))(t); j.By != "bob" {
		t.Errorf("his own: %+v", j)
	}
	world.Must(bob.CancelJob(t.Context(), own))(t)
	world.Must(w.Client.CancelJob(t.Context(), seen))(t)
}

// jobsListed: pages have every job once, the newest first, and a watch goes on where it
// was.
func jobsListed(t *testing.T, w *world.World) {
	q := client.JobQuery{GroupID: names[0], Limit: 2, Counts: true}
	var ids []string
	for {
		page := world.Must(w.Client.Jobs(t.Context(), q))(t)
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		sum := 0
		for _, n := range page.Counts {
			sum += n
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			if sum != len(ids) {
				t.Errorf("%d are counted and %d listed", sum, len(ids))
			}
			break
		}
	}
	if len(ids) < 5 || !slices.IsSortedFunc(ids, func(a, b string) int { return cmp.Compare(b, a) }) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Errorf("listed %v", ids)
	}
	// Two jobs; the first watch is told of one and breaks off. The second is told of
	// the other one, and of the first one only if it has changed.
	one, two := submit(t, w.Client, names[0]), submit(t, w.Client, names[0])
	settled := func(id string) {
		until(t, w.Client, id, func(j *v1.Job) bool { return j.State == v1.JobSubmitted })
	}
	settled(one)
	settled(two)
	enough := errors.New("enough")
	var since int64
	var first string
	watch := func(since int64, fn func(j *v1.Job, id int64) error) {
		t.Helper()
		q := client.JobQuery{GroupID: names[0], States: []string{v1.JobSubmitted}}
		if err := w.Client.WatchJobs(within(t), q, client.JobWatchOptions{Since: since}, fn); !errors.Is(err, enough) {
			t.Fatal(err)
		}
	}
	watch(0, func(j *v1.Job, id int64) error {
		if j.ID != one && j.ID != two {
			return nil
		}
		first, since = j.ID, id
		return enough
	})
	watch(since, func(j *v1.Job, id int64) error {
		switch {
		case id <= since:
			t.Errorf("told again: %+v", j)
		case j.ID == first:
			t.Errorf("it has not changed: %+v", j)
		case j.ID == one || j.ID == two:
			return enough
		}
		return nil
	})
}

// moveOn lets the Job of an attempt take its next step on its cluster.
func moveOn(w *world.World, j *v1.Job) error {
	next := map[string]string{v1.JobSubmitted: oscarsim.JobRunning, v1.JobRunning: oscarsim.JobSucceeded}[j.State]
	if next == "" {
		return nil
	}
	return w.Cluster(j.Place.ClusterID).Sim.SetJobStatus(j.Place.ServiceName, j.Place.JobName, next)
}

// inOrder says whether states came as a job passes through them.
func inOrder(states []string) bool {
	rank := func(s string) int { return slices.Index(v1.JobStates(), s) }
	return slices.IsSortedFunc(states, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
}
