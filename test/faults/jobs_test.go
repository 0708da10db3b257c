package faults_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/process"
	"github.com/oscarfed/oscarfed/test/world"
)

// The clusters of the jobs, and what each is there for.
const (
	runs   = "oscar-cluster-a" // Jobs that end soon
	slow   = "oscar-cluster-b" // Jobs that do not end by themselves
	silent = "oscar-cluster-c" // a session, and no syncer behind it
)

// chain is a control plane that dies at one fail point of jobs after the other, in a
// process of its own. The syncers live, in this process.
type chain struct {
	*world.World
	processes *process.Federation

	api *client.Client // nil while the process is dead before it was ready
	hit map[string]bool
}

// service makes a federation: its coordinator's cluster, and the members.
func (c *chain) service(name, cluster string, members ...string) {
	c.T.Helper()
	var list []string
	for i, id := range members {
		list = append(list, fmt.Sprintf(`{"type":"oscar","cluster_id":%q,"service_name":"%s-%d","priority":%d}`, id, name, i, i+1))
	}
	s := world.Service(c.T, fmt.Sprintf(`{"name":%q,"cluster_id":%q,"image":"i","cpu":"0.5","memory":"0.5Gi","script":"#!/bin/sh\n",
"federation":{"topology":"star","delegation":"static","members":[%s]}}`, name, cluster, strings.Join(list, ",")))
	if _, err := c.Client.CreateService(c.T.Context(), s, client.CreateOptions{Wait: limit}); err != nil {
		c.T.Fatal(err)
	}
}

func newChain(t *testing.T) *chain {
	t.Helper()
	c := &chain{hit: map[string]bool{}}
	identity := filepath.Join(t.TempDir(), "identity.age")
	c.World = world.New(t, world.Options{
		Clusters: []string{runs, slow, silent}, IdentityFile: identity,
		Sim: func(cfg *oscarsim.Config) {
			cfg.Workload = &oscarsim.Workload{Seed: 1, Min: 300 * time.Millisecond, Max: 400 * time.Millisecond}
			if cfg.ClusterID == slow {
				cfg.Workload.Min, cfg.Workload.Max = time.Hour, time.Hour
			}
			cfg.Nodes = []oscarsim.Node{{Name: "n", CPU: 64_000, Memory: 1 << 40}}
		},
		Syncer: func(cfg *syncer.Config) {
			if cfg.ClusterID == silent {
				cfg.SessionTTL = time.Hour
			}
		},
	})
	c.service("quick", runs)
	c.service("endless", slow)
	c.service("unclaimed", silent, runs)
	c.service("unplaced", silent)
	c.StopControlPlane(c.CP)
	// Its capacity counts as fresh while its session stands, and no syncer claims jobs there.
	c.Cluster(silent).Kill()
	c.processes = process.New(t, process.Config{
		Store: c.Store, IdentityFile: identity, Flags: func(string) []string { return []string{"--etcd-endpoints=" + c.Etcd} },
	})
	return c
}

// start starts the control plane in the place of the one before, to die at failAt.
func (c *chain) start(failAt string) {
	c.T.Helper()
	if c.processes.Child(first) != nil {
		c.processes.Child(first).Kill() // unless it is dead
	}
	var err error
	if c.api, err = c.processes.StartControlPlane(c.T.Context(), first, failAt); err != nil {
		c.T.Fatal(err)
	}
}

// dies has the control plane killed just before, and just after, the transaction of a
// step that do brings about. do is called, again and again, while there is somebody to
// ask: it knows itself what was answered.
func (c *chain) dies(step string, do func(ctx context.Context) error) {
	c.T.Helper()
	for _, when := range []string{"before", "after"} {
		point := fmt.Sprintf("controlplane.%s_job_%s", when, step)
		c.start(point)
		c.Eventually("it is killed at "+point, func() bool {
			if c.processes.Child(first).Killed() {
				return true
			}
			if c.api != nil {
				ctx, cancel := context.WithTimeout(c.T.Context(), limit)
				defer cancel()
				_ = do(ctx) // it may break off
			}
			return c.processes.Child(first).Killed()
		})
		c.hit[point] = true
	}
}

// submit sends a job that is known by its key, so that it may be sent again.
func (c *chain) submit(service, key string, id *string) func(context.Context) error {
	return func(ctx context.Context) error {
		job, err := c.api.SubmitJob(ctx, service, []byte("event "+key), client.JobOptions{IdempotencyKey: key})
		if err == nil {
			*id = job.ID
		}
		return err
	}
}

// TestKilledAtEveryFailPointOfJobs kills the control plane before and after each step of
// a job, and lets its successor die at the next one. In the end no job is lost, none was
// started twice in an attempt, and each ended as it should.
func TestKilledAtEveryFailPointOfJobs(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	type sent struct {
		id      string
		want    record.JobState
		starts  int
		service string
	}
	jobs := map[string]*sent{}
	job := func(key, service string, want record.JobState, starts int) func(context.Context) error {
		jobs[key] = &sent{service: service, want: want, starts: starts}
		return c.submit(service, key, &jobs[key].id)
	}
	// arrange sends a job to one that lives, and waits until it is so far.
	arrange := func(key string, do func(context.Context) error, states ...record.JobState) {
		t.Helper()
		c.start("")
		if err := do(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.AwaitJob(jobs[key].id, states...)
	}
	deny := func(count int) {
		t.Helper()
		if err := c.Cluster(runs).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpJob, Fault: oscarsim.FaultDeny, Count: count}); err != nil {
			t.Fatal(err)
		}
	}

	// settle has one that lives end all jobs that were sent.
	settle := func() {
		t.Helper()
		c.start("")
		for key, j := range jobs {
			// The answer may have been lost each time: sent again it is the same job.
			before := j.id
			if err := c.submit(j.service, key, &j.id)(t.Context()); err != nil || before != "" && before != j.id {
				t.Fatalf("job %s was %s, and is %s when it is sent again: %v", key, before, j.id, err)
			}
			got := c.AwaitJob(j.id, record.JobSucceeded, record.JobFailed, record.JobCancelled, record.JobVanished, record.JobParked, record.JobReturned)
			if n := c.Starts("event " + key); got.State != j.want || n != j.starts {
				t.Errorf("job %s is %s after %d starts, want %s and %d: %+v", key, got.State, n, j.want, j.starts, got)
			}
		}
	}

	for _, step := range []string{"accept", "assign", "end"} {
		c.dies(step, job(step, "quick", record.JobSucceeded, 1))
	}
	settle()
	deny(1)
	c.dies("requeue", job("requeue", "quick", record.JobSucceeded, 1))
	settle()
	deny(0)
	c.dies("park", job("park", "quick", record.JobSucceeded, 1))
	c.start("")
	c.AwaitJob(jobs["park"].id, record.JobParked)
	c.Cluster(runs).Sim.ClearFaults()
	c.dies("replay", func(ctx context.Context) error {
		_, err := c.api.ReplayJob(ctx, jobs["park"].id)
		return err
	})

	endless := job("order", "endless", record.JobCancelled, 1)
	c.dies("running", endless) // only of one that does not end at once it is seen for certain
	arrange("order", endless, record.JobRunning)
	c.dies("order_cancel", func(ctx context.Context) error {
		_, err := c.api.CancelJob(ctx, jobs["order"].id)
		return err
	})

	arrange("withdraw", job("withdraw", "unclaimed", record.JobSucceeded, 1), record.JobAssigned)
	if p := c.Job(jobs["withdraw"].id).Place; p == nil || p.ClusterID != silent {
		t.Fatalf("it was assigned to %+v", p)
	}
	c.dies("withdraw", func(ctx context.Context) error {
		_, err := c.api.SetClusterState(ctx, silent, string(record.ClusterCordoned))
		return err
	})
	arrange("cancel", job("cancel", "unplaced", record.JobCancelled, 0), record.JobQueued)
	c.dies("cancel", func(ctx context.Context) error {
		_, err := c.api.CancelJob(ctx, jobs["cancel"].id)
		return err
	})

	settle()
	if n := len(c.Keys(record.JobsPrefix)); n != len(jobs) {
		t.Errorf("there are %d jobs, %d were sent", n, len(jobs))
	}
	for _, point := range controlplane.JobFailPoints() {
		if !c.hit[point] {
			t.Errorf("nobody was killed at %s", point)
		}
	}
	if n, want := len(c.hit), len(controlplane.JobFailPoints()); n != want {
		t.Errorf("killed at %d points, there are %d", n, want)
	}
}
