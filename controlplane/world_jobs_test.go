package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// newJobWorld is a world with the federation of body, whose clusters have room: each
// revision is checked at the end.
func newJobWorld(t *testing.T, mutate ...func(*controlplane.Config)) *world {
	t.Helper()
	w := emptyWorld(t, embedded.Config{})
	w.guard(secretEvent)
	w.start(mutate...)
	w.mustCreate()
	for _, id := range []string{"a", "b", "c"} {
		w.clusters[id].has(4000, 4000)
	}
	return w
}

// secretEvent is in events, and must be readable nowhere in the store.
const secretEvent = "the-secret-that-no-watcher-may-read"

// has writes what the nodes of a cluster have free, in millicores and with memory to spare: nothing else is there.
func (p *fakeSyncer) has(free ...int64) {
	p.t.Helper()
	p.hasBeside(0, free...)
}

// hasBeside is has, of nodes on which others have so much.
func (p *fakeSyncer) hasBeside(others int64, free ...int64) {
	p.t.Helper()
	session, err := p.store.Get(p.t.Context(), record.SessionKey(p.cluster))
	if err != nil {
		p.t.Fatal(err)
	}
	c := record.Capacity{V: record.Version, Source: record.CapacityFromOscar, Nodes: []record.CapacityNode{}, Session: session.ModRevision}
	for i, n := range free {
		c.Nodes = append(c.Nodes, record.CapacityNode{Name: fmt.Sprint("n", i), Status: record.NodeReady,
			CPU: record.NodeAmount{Allocatable: n + others, Free: n}, Memory: record.NodeMemory{Allocatable: 64 << 30, Free: 64 << 30}})
	}
	p.write(record.CapacityKey(p.cluster), c)
}

func (p *fakeSyncer) write(key string, rec any) {
	p.t.Helper()
	if _, err := p.store.Update(p.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(key, rec)
		tx.Touch(key)
		return nil
	}}); err != nil {
		p.t.Fatal(err)
	}
}

// standing lists what is asked of a cluster.
func (p *fakeSyncer) standing() []record.Assignment {
	p.t.Helper()
	items, _, err := p.store.List(p.t.Context(), record.AssignmentsPrefix(p.cluster))
	if err != nil {
		p.t.Fatal(err)
	}
	var out []record.Assignment
	for _, kv := range items {
		a, err := store.Decode[record.Assignment](kv)
		if err != nil {
			p.t.Fatal(err)
		}
		out = append(out, *a)
	}
	return out
}

// event opens the event of an attempt, as the syncer would.
func (p *fakeSyncer) event(job string, attempt int) string {
	p.t.Helper()
	kv, err := p.store.Get(p.t.Context(), record.AssignedEventKey(p.cluster, job, attempt))
	if err != nil {
		p.t.Fatal(err)
	}
	e, err := store.Decode[record.Event](kv)
	if err != nil {
		p.t.Fatal(err)
	}
	body, err := p.identity.Open(e.Sealed, seal.Header{Purpose: seal.PurposeEvent, Cluster: p.cluster, UID: job, Generation: int64(attempt)}, time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(body)
}

// says reports on an attempt, as a syncer does: under its session, and against the
// assignment. It answers false when the assignment is gone.
func (p *fakeSyncer) says(job string, attempt int, state record.JobState, mutate ...func(*record.JobReport)) bool {
	p.t.Helper()
	ok, err := p.tells(p.t.Context(), job, attempt, state, mutate...)
	if err != nil {
		p.t.Fatal(err)
	}
	return ok
}

func (p *fakeSyncer) tells(ctx context.Context, job string, attempt int, state record.JobState, mutate ...func(*record.JobReport)) (bool, error) {
	key, assignment := record.JobReportKey(p.cluster, job, attempt), record.AssignmentKey(p.cluster, job, attempt)
	session := record.SessionKey(p.cluster)
	told := false
	_, err := p.store.Update(ctx, store.Update{Keys: []string{key, assignment, session}, Build: func(v store.View, tx *store.Txn) error {
		told = false
		a, ok := v.KV(assignment)
		s, alive := v.KV(session)
		if !ok || !alive {
			return nil
		}
		now := record.At(time.Now())
		r := &record.JobReport{V: record.Version, Session: s.CreateRevision}
		if old, ok := v.KV(key); ok {
			was, err := store.Decode[record.JobReport](old)
			if err != nil {
				return err
			}
			r = was
		}
		r.State, r.Revision, r.LastTransitionTime = state, a.ModRevision, now
		switch state {
		case record.JobClaimed:
			r.Session = s.CreateRevision
		case record.JobSubmitting:
			r.PostedAt = &now
		case record.JobRunning:
			r.StartedAt = &now
		case record.JobSucceeded, record.JobFailed, record.JobCancelled:
			r.EndedAt = &now
		}
		for _, m := range mutate {
			m(r)
		}
		tx.Expect(assignment)
		tx.Expect(session)
		tx.Expect(key)
		tx.Put(key, r)
		told = true
		return nil
	}})
	return told, err
}

func refusal(reason record.JobReason, status int, message string) func(*record.JobReport) {
	return func(r *record.JobReport) { r.Reason, r.Status, r.Message = reason, status, message }
}

// runs does all jobs of a cluster until the end of the test, and counts them.
func (p *fakeSyncer) runs(states ...record.JobState) {
	p.acts(func(string, int) []record.JobState { return states })
}

// acts reports on each attempt what a test says.
func (p *fakeSyncer) acts(does func(job string, n int) []record.JobState) {
	runUntilEnd(p.t, func(ctx context.Context) {
		p.follow(ctx, record.AssignmentsPrefix(p.cluster), func(kv store.KV) {
			ref := record.ParseKey(kv.Key)
			for _, state := range does(ref.Name, ref.AttemptOf()) {
				if ok, err := p.tells(ctx, ref.Name, ref.AttemptOf(), state); err != nil && ctx.Err() == nil {
					p.t.Error(err)
				} else if !ok {
					break
				}
			}
		})
	})
}

func whole() []record.JobState {
	return []record.JobState{record.JobClaimed, record.JobSubmitting, record.JobSubmitted, record.JobRunning, record.JobSucceeded}
}

// submit sends a job as the administrator.
func (w *world) submit(mutate ...func(*jobs.Request)) *jobs.Job {
	w.t.Helper()
	j, err := w.trySubmit(mutate...)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func (w *world) trySubmit(mutate ...func(*jobs.Request)) (*jobs.Job, error) {
	req := jobs.Request{Service: "grayifyr0", Event: []byte(secretEvent)}
	for _, m := range mutate {
		m(&req)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	return w.Jobs.Submit(ctx, admin, req)
}

// becomes waits for a job to be as is said.
func (w *world) becomes(id string, ok func(*jobs.Job) bool) *jobs.Job {
	w.t.Helper()
	done := errors.New("done")
	var last *jobs.Job
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	err := w.Jobs.Watch(ctx, admin, id, 0, func(j *jobs.Job) error {
		if last = j; ok(j) {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		w.t.Fatalf("it never became so: %v; it is %+v", err, last)
	}
	return last
}

func (w *world) is(id string, state record.JobState) *jobs.Job {
	w.t.Helper()
	return w.becomes(id, func(j *jobs.Job) bool { return j.State == state })
}

// at waits until a job is assigned, and gives the cluster.
func (w *world) at(id string) (*fakeSyncer, *jobs.Job) {
	w.t.Helper()
	j := w.is(id, record.JobAssigned)
	return w.clusters[j.Place.ClusterID], j
}

// leaves says which keys speak of a job.
func (w *world) leaves(id string) []string {
	w.t.Helper()
	return slices.DeleteFunc(w.keys(record.Root), func(key string) bool { return !strings.Contains(key, id) })
}
