package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// jobBody prefers b, then c, and never a.
const jobBody = `{"name":"grayifyr0","cluster_id":"oscar-cluster-a","image":"ghcr.io/grycap/imagemagick","cpu":"0.5","memory":"0.5Gi",
"script":"#!/bin/sh\n",
"federation":{"topology":"star","delegation":"static","members":[
{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"grayifyr1","priority":1},
{"type":"oscar","cluster_id":"oscar-cluster-c","service_name":"grayifyr2","priority":2}]},
"input":[{"storage_provider":"minio.default","path":"grayifyr0/in"}],"output":[{"storage_provider":"minio.default","path":"grayifyr0/out"}]}`

func newJobWorld(t *testing.T, mutate ...func(*world.Options)) *world.World {
	t.Helper()
	w := newWorld(t, append([]func(*world.Options){func(o *world.Options) {
		o.Secrets = append(o.Secrets, "canary-event")
		o.Sim = func(c *oscarsim.Config) {
			world.QuickJobs(c)
			c.Nodes = []oscarsim.Node{{Name: "n", CPU: 64_000, Memory: 1 << 40}}
			if c.ClusterID == a { // full
				c.Nodes = []oscarsim.Node{{Name: "n", CPU: 1000, UsedCPU: 1000, RequestCPU: 1000, Memory: 1 << 30}}
			}
		}
		o.Syncer = func(c *syncer.Config) { c.Jobs.Timeout, c.StopGrace = time.Second, time.Second }
	}}, mutate...)...)
	if _, err := create(w, jobBody); err != nil {
		t.Fatal(err)
	}
	return w
}

var ended = []record.JobState{record.JobSucceeded, record.JobFailed, record.JobCancelled, record.JobVanished, record.JobParked}

// TestAJobRunsOnceWhateverHappensToItsAnswer shares one world.
func TestAJobRunsOnceWhateverHappensToItsAnswer(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		run := func(t *testing.T, event string) *record.Job {
			t.Helper()
			job := w.AwaitJob(w.Submit(names[0], event), ended...)
			if n := w.Starts(event); n != 1 || job.State != record.JobSucceeded {
				t.Errorf("started %d times: %+v", n, job)
			}
			return job
		}
		step(t, "nothing", func(t *testing.T) {
			job := run(t, "canary-event of nothing")
			if job.Place == nil || job.Place.ClusterID != b || job.StartedAt == nil {
				t.Errorf("it ran at %+v", job.Place)
			}
			if n := len(w.Cluster(b).Sim.Jobs(names[1])); n != 1 {
				t.Errorf("b has %d Jobs", n)
			}
		})
		for _, fault := range []string{oscarsim.Fault500After, oscarsim.FaultLate, oscarsim.FaultRefuse} {
			step(t, fault, func(t *testing.T) {
				if err := w.Cluster(b).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpJob, Fault: fault, Count: 1, Delay: 100 * time.Millisecond}); err != nil {
					t.Fatal(err)
				}
				run(t, "event of "+fault)
				w.Cluster(b).Sim.Settle()
				if n := w.Starts("event of " + fault); n != 1 {
					t.Errorf("started %d times at last", n)
				}
			})
		}
		step(t, "refused by one cluster", func(t *testing.T) {
			if err := w.Cluster(b).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpJob, Fault: oscarsim.FaultDeny, Count: 1}); err != nil {
				t.Fatal(err)
			}
			job := run(t, "event that b denies")
			if len(job.Past) != 1 || job.Past[0].Status != 401 || job.Past[0].ClusterID != b {
				t.Errorf("its past is %+v", job.Past)
			}
		})
		step(t, "the cluster is killed", func(t *testing.T) {
			// Half of them are on their way when it dies, and each is started once.
			var ids []string
			for i := range 40 {
				ids = append(ids, w.Submit(names[0], fmt.Sprint("event of a death ", i)))
			}
			w.Cluster(b).Kill()
			for i := range 40 {
				ids = append(ids, w.Submit(names[0], fmt.Sprint("event of a death ", i+40)))
			}
			w.Cluster(b).Start()
			states := map[record.JobState]int{}
			for i, id := range ids {
				job := w.AwaitJob(id, ended...)
				states[job.State]++
				n := w.Starts(fmt.Sprint("event of a death ", i))
				if n > 1 || n == 0 && job.State == record.JobSucceeded {
					t.Errorf("started %d times: %+v", n, job)
				}
			}
			if states[record.JobSucceeded]+states[record.JobVanished] != len(ids) || states[record.JobVanished] > 8 {
				t.Errorf("they ended as %v", states)
			}
		})
		step(t, "the cluster is lost before it claims", func(t *testing.T) {
			w.Cluster(b).Stop()
			job := run(t, "event without b")
			if job.Place.ClusterID != c {
				t.Errorf("it ran at %+v", job.Place)
			}
			w.Cluster(b).Start()
		})
	})
}
