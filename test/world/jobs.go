package world

import (
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// QuickJobs is a workload whose Jobs end soon, and well.
func QuickJobs(c *oscarsim.Config) {
	c.Workload = &oscarsim.Workload{Seed: 1, Min: 10e6, Max: 50e6}
}

// Submit sends an event to a service as the administrator, and answers the job's id.
func (w *World) Submit(service, event string) string {
	w.T.Helper()
	job, err := w.CP.Jobs.Submit(w.T.Context(), identity.Caller{Subject: identity.Admin, Administrator: true},
		jobs.Request{Service: service, Event: []byte(event)})
	if err != nil {
		w.T.Fatal(err)
	}
	return job.ID
}

// Job is the record of a job, or nil.
func (w *World) Job(id string) *record.Job {
	w.T.Helper()
	view, err := w.Store.Read(w.T.Context(), record.JobKey(id))
	if err != nil {
		return nil // etcd may be away for a moment
	}
	kv, ok := view.KV(record.JobKey(id))
	if !ok {
		return nil
	}
	job, err := store.Decode[record.Job](kv)
	if err != nil {
		w.T.Fatal(err)
	}
	return job
}

// AwaitJob waits until a job is in one of the states.
func (w *World) AwaitJob(id string, states ...record.JobState) *record.Job {
	w.T.Helper()
	var job *record.Job
	w.Eventually("the job is in one of the states", func() bool {
		job = w.Job(id)
		return job != nil && slices.Contains(states, job.State)
	})
	return job
}

// Starts counts how often an event was started, on all clusters together.
func (w *World) Starts(event string) int {
	n := 0
	for _, c := range w.clusters {
		n += c.Sim.Starts().Events[event]
	}
	return n
}
