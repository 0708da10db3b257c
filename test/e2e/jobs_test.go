package e2e_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

const privateJobs = "svc-private-jobs"

// Jobs as their users see them, through the API and its client, on clusters whose Jobs
// a test moves. One world; each part uses jobs of its own.
func TestJobsThroughTheAPI(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const event = `{"photo":"https://example.org/canary-event-of-a-job"}`
		w := withUsers(t, func(o *world.Options) {
			o.Names = append(slices.Clone(names), "svc")
			o.Secrets = append(o.Secrets, "canary-event-of-a-job")
			o.Syncer = func(c *syncer.Config) { c.Jobs.Poll, c.Jobs.Grace = 50*time.Millisecond, 200*time.Millisecond }
		})
		w.AddUser("bob")
		if _, err := create(w, strings.Replace(body, `"environment":`, `"visibility":"public","environment":`, 1)); err != nil {
			t.Fatal(err)
		}
		owner := w.WithToken(w.Token(alice, nil))
		def := fmt.Sprintf(`{"name":%q,"cluster_id":"oscar-cluster-a","image":"i","script":"s"}`, privateJobs)
		if _, err := owner.CreateService(t.Context(), world.Service(t, def), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}

		step(t, "what is free for them", func(t *testing.T) { roomSeen(t, w) })
		step(t, "submitted, run and explained", func(t *testing.T) {
			opts := client.JobOptions{IdempotencyKey: "of-this-test"}
			sent, err := w.Client.SubmitJob(t.Context(), names[0], []byte(event), opts)
			if err != nil {
				t.Fatal(err)
			}
			var states []string
			ended := errors.New("ended")
			err = w.Client.WatchJob(within(t), sent.ID, client.JobWatchOptions{}, func(j *v1.Job, id int64) error {
				states = append(states, j.State)
				if id < 1 {
					t.Errorf("an event without an id: %+v", j)
				}
				if v1.JobEnded(j.State) {
					return ended
				}
				return moveOn(w, j)
			})
			if !errors.Is(err, ended) {
				t.Fatalf("watch: %v, after %v", err, states)
			}
			// States that pass quickly may be told together with the next one.
			if !inOrder(states) || states[len(states)-1] != v1.JobSucceeded || !slices.Contains(states, v1.JobRunning) {
				t.Errorf("it was %v", states)
			}
			job := world.Must(w.Client.Job(t.Context(), sent.ID))(t)
			if job.Attempt != 1 || job.Place == nil || job.Size != len(event) || job.By != "cluster_admin" || job.SubmittedAt == nil && job.EndedAt == nil {
				t.Errorf("it is %+v", job)
			}
			sim := w.Cluster(job.Place.ClusterID).Sim
			if got := sim.Starts().Names[job.Place.JobName]; got != 1 {
				t.Errorf("started %d times", got)
			}
			for _, j := range sim.Jobs(job.Place.ServiceName) {
				if j.Name == job.Place.JobName && j.Event != event {
					t.Errorf("the event arrived as %q", j.Event)
				}
			}
			decidedAgain(t, world.Must(w.Client.ExplainJob(t.Context(), sent.ID))(t), job)
			// Sent again it is the same job, also now.
			again, err := w.Client.SubmitJob(t.Context(), names[0], []byte(event), opts)
			if err != nil || again.ID != sent.ID || !again.Replayed || again.Location != sent.Location {
				t.Errorf("sent again: %+v, %v", again, err)
			}
			if _, err := w.Client.SubmitJob(t.Context(), names[0], []byte("other"), opts); codeOf(err) != v1.CodeFailedPrecondition {
				t.Errorf("the key with another event: %v", err)
			}
			if _, err := w.Client.CancelJob(t.Context(), sent.ID); codeOf(err) != v1.CodeFailedPrecondition {
				t.Errorf("cancel what has ended: %v", err)
			}
		})

		step(t, "cancelled", func(t *testing.T) {
			id := submit(t, w.Client, names[0])
			job := until(t, w.Client, id, func(j *v1.Job) bool { return j.State == v1.JobSubmitted })
			if cancelled := world.Must(w.Client.CancelJob(t.Context(), id))(t); !cancelled.Cancelled {
				t.Errorf("it is %+v", cancelled)
			}
			until(t, w.Client, id, func(j *v1.Job) bool { return j.State == v1.JobCancelled })
			for _, j := range w.Cluster(job.Place.ClusterID).Sim.Jobs(job.Place.ServiceName) {
				if j.Name == job.Place.JobName {
					t.Error("its Job is still there")
				}
			}
			if again := world.Must(w.Client.CancelJob(t.Context(), id))(t); again.State != v1.JobCancelled {
				t.Errorf("cancelled again it is %s", again.State)
			}
		})

		step(t, "resolved only when in doubt", func(t *testing.T) {
			id := submit(t, w.Client, names[0])
			until(t, w.Client, id, func(j *v1.Job) bool { return j.State == v1.JobSubmitted })
			for _, state := range []string{v1.JobSubmitted, v1.JobVanished} {
				if _, err := w.Client.ResolveJob(t.Context(), id, state); codeOf(err) != v1.CodeFailedPrecondition {
					t.Errorf("%s: %v", state, err)
				}
			}
			if _, err := w.Client.ResolveJob(t.Context(), id, v1.JobSucceeded); codeOf(err) != v1.CodeInvalid {
				t.Errorf("as succeeded: %v", err)
			}
			if _, err := w.Client.ReplayJob(t.Context(), id); codeOf(err) != v1.CodeFailedPrecondition {
				t.Errorf("replay: %v", err)
			}
		})

		step(t, "sent by the service itself", func(t *testing.T) { serviceTokens(t, w) })
		step(t, "seen by whom", func(t *testing.T) { jobsSeen(t, w, owner) })
		step(t, "listed", func(t *testing.T) { jobsListed(t, w) })

		step(t, "parked and replayed", func(t *testing.T) {
			for _, id := range []string{a, b, c} {
				if err := w.Cluster(id).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpJob, Fault: oscarsim.FaultDeny}); err != nil {
					t.Fatal(err)
				}
			}
			id := submit(t, w.Client, names[0])
			parked := until(t, w.Client, id, func(j *v1.Job) bool { return v1.JobEnded(j.State) })
			if parked.State != v1.JobParked || parked.Reason != "TooManyAttempts" || len(parked.Attempts) != 5 {
				t.Fatalf("it is %+v", parked)
			}
			for _, at := range parked.Attempts {
				if at.State != "refused" || at.Reason != "OscarRefused" || at.Status != http.StatusUnauthorized || at.Place == "" {
					t.Errorf("attempt %+v", at)
				}
			}
			for _, id := range []string{a, b, c} {
				w.Cluster(id).Sim.ClearFaults()
			}
			if replayed := world.Must(w.Client.ReplayJob(t.Context(), id))(t); v1.JobEnded(replayed.State) {
				t.Errorf("replayed it is %+v", replayed)
			}
			job := until(t, w.Client, id, func(j *v1.Job) bool { return j.State == v1.JobSubmitted })
			if job.Attempt != 6 || len(job.Attempts) != 5 {
				t.Errorf("it is %+v", job)
			}
			if e := world.Must(w.Client.ExplainJob(t.Context(), id))(t); len(e.Decisions) < 2 || e.Decisions[0].Attempt != 6 {
				t.Errorf("%d decisions", len(e.Decisions))
			}
		})
	})
}

// serviceTokens: a service sends itself jobs by its own token and is told nothing of
// others; a token that is wrong does not tell whether the service is there.
func serviceTokens(t *testing.T, w *world.World) {
	tokens := map[string]string{}
	for i, id := range []string{a, b, c} {
		view, ok := w.Cluster(id).Sim.Service(names[i])
		if !ok {
			t.Fatal("no service")
		}
		tokens[names[i]] = view.Token
	}
	post := func(path, token string, header ...string) (int, http.Header, string) {
		return w.Raw("POST", path, "an event", "Bearer "+token, header...)
	}
	status, header, text := post("/job/"+names[1]+"/", tokens[names[1]])
	if status != http.StatusCreated || text != "" || header.Get("Location") != "/system/jobs/"+header.Get("X-Job-ID") {
		t.Fatalf("answered %d %v %q", status, header, text)
	}
	job := world.Must(w.Client.Job(t.Context(), header.Get("X-Job-ID")))(t)
	if job.ClusterID != b || job.ServiceName != names[1] || job.By != "" {
		t.Errorf("it is %+v", job)
	}
	// A key is a service's own.
	_, first, _ := post("/job/"+names[1], tokens[names[1]], "Idempotency-Key", "k")
	_, second, _ := post("/job/"+names[1], tokens[names[1]], "Idempotency-Key", "k")
	if id := first.Get("X-Job-ID"); id == "" || second.Get("X-Job-ID") != id || second.Get("Idempotent-Replayed") != "true" {
		t.Errorf("sent again: %v, then %v", first, second)
	}
	wrong := strings.Repeat("0123456789abcdef", 4)
	refusal := ""
	for _, try := range [][2]string{
		{names[0], wrong}, {"nothing", wrong}, {names[0], tokens[names[1]]}, {privateJobs, tokens[names[0]]}, {"nothing", tokens[names[0]]},
		{names[0], strings.ToUpper(tokens[names[0]])},
	} {
		status, h, text := post("/job/"+try[0], try[1])
		for _, name := range []string{"Date", "X-Request-Id"} {
			h.Del(name)
		}
		got := fmt.Sprint(status, h, text)
		if refusal = cmp.Or(refusal, got); status != http.StatusUnauthorized || got != refusal || text != "" {
			t.Errorf("%s: %s, another one: %s", try[0], got, refusal)
		}
	}
	for _, path := range []string{"/system/jobs", "/system/jobs/" + job.ID, "/system/services", "/system/replicas/" + names[0], "/system/replicas/" + names[1] + "/history"} {
		if status, _, _ := w.Raw("GET", path, "", "Bearer "+tokens[names[1]]); status != http.StatusUnauthorized {
			t.Errorf("GET %s by a service: %d", path, status)
		}
	}
	// Its own place it may read.
	status, _, text = w.Raw("GET", "/system/replicas/"+names[1], "", "Bearer "+tokens[names[1]])
	if status != http.StatusOK || !strings.Contains(text, `"self":{"type":"oscar","cluster_id":"`+b+`"`) {
		t.Errorf("answered %d %s", status, text)
	}
	for body, want := range map[string]int{strings.Repeat("x", 96<<10+1): 413, "\xff": 400, "a\x00b": 400} {
		if status, _, text := w.Raw("POST", "/job/"+names[1], body, "Bearer "+tokens[names[1]]); status != want || text == "" {
			t.Errorf("%.10q: %d %s", body, status, text)
		}
	}
}

// decidedAgain: the record of a decision gives the same decision again.
func decidedAgain(t *testing.T, e *v1.JobExplanation, j *v1.Job) {
	t.Helper()
	if len(e.Decisions) != 1 {
		t.Fatalf("%d decisions", len(e.Decisions))
	}
	d := e.Decisions[0]
	if d.Now || d.Attempt != 1 || d.Chosen != j.Place.ClusterID+"/"+j.Place.ServiceName || len(d.Members) != 3 {
		t.Errorf("it is %+v", d)
	}
	var s delegation.Snapshot
	if err := json.Unmarshal(d.Snapshot, &s); err != nil {
		t.Fatal(err)
	}
	if again := delegation.Choose(s); again.Chosen != d.Chosen || !reflect.DeepEqual(again.Order, d.Order) || again.Policy != d.Policy {
		t.Errorf("chosen again: %+v, it was %+v", again, d)
	}
}

func submit(t *testing.T, as *client.Client, service string) string {
	t.Helper()
	return world.Must(as.SubmitJob(t.Context(), service, []byte("an event"), client.JobOptions{}))(t).ID
}

// roomSeen checks what the API says that the clusters have free: each one, and the sum as
// an OSCAR would say it.
func roomSeen(t *testing.T, w *world.World) {
	t.Helper()
	const free, memory = 3500, 8<<30 - 512<<20 // of each simulated cluster's one node
	var st *v1.SystemStatus
	w.Eventually("every cluster has said what it has", func() bool {
		st = world.Must(w.Client.Status(t.Context()))(t)
		return len(st.Clusters) == 3 && !slices.ContainsFunc(st.Clusters, func(c v1.ClusterStatus) bool { return !c.Fresh })
	})
	for _, c := range st.Clusters {
		if !c.Alive || c.Nodes != 1 || c.CPU.Allocatable != 4000 || c.CPU.Free != free || c.CPU.MaxFree != free || c.Memory.Free != memory {
			t.Errorf("%+v", c)
		}
	}
	all := st.Cluster.Metrics
	if st.Cluster.Nodes != 3 || len(st.Cluster.List) != 3 || all.CPU.Free != 3*free || all.CPU.MaxFree != free ||
		all.Memory.Free != 3*memory || all.Memory.MaxFree != memory || all.CPU.Schedulable != all.CPU.Free {
		t.Errorf("%+v", st.Cluster)
	}
}

// until watches a job until it is as is wanted.
func until(t *testing.T, as *client.Client, id string, ok func(*v1.Job) bool) *v1.Job {
	t.Helper()
	seen := errors.New("seen")
	var last *v1.Job
	err := as.WatchJob(within(t), id, client.JobWatchOptions{}, func(j *v1.Job, _ int64) error {
		if last = j; ok(j) {
			return seen
		}
		return nil
	})
	if !errors.Is(err, seen) {
		t.Fatalf("it never became so: %v; it is %+v", err, last)
	}
	return last
}

// within ends when the test has waited for too long.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}
