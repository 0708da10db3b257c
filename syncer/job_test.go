package syncer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/internal/failpoint"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// work is one attempt of a job that the test assigns.
type work struct {
	job        string
	n          int
	event      string
	assignment record.Assignment
	revision   int64
}

func newWork(p *replica, event string) *work {
	w := &work{job: uuid.NewString(), n: 1, event: event}
	w.assignment = record.Assignment{V: 1, Job: w.job, Attempt: w.n, Federation: "fed", Service: p.name, UID: p.uid,
		RequestID: uuid.NewString(), Name: record.JobName(p.name, w.job, w.n), AssignedAt: record.At(time.Now())}
	return w
}

// assign writes assignments and their events, each in the place of the control plane.
func (r *rig) assign(all ...*work) {
	r.t.Helper()
	for part := range slices.Chunk(all, 60) {
		res, err := r.store.Update(r.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			for _, w := range part {
				h := seal.Header{Purpose: seal.PurposeEvent, Cluster: clusterID, UID: w.job, Generation: int64(w.n)}
				sealed, err := seal.Seal(h, []byte(w.event), r.identity.Recipient())
				if err != nil {
					return err
				}
				tx.Put(record.AssignmentKey(clusterID, w.job, w.n), w.assignment)
				tx.Put(record.AssignedEventKey(clusterID, w.job, w.n), record.Event{V: 1, Sealed: sealed})
			}
			return nil
		}})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, w := range part {
			w.revision = res.Revision
		}
	}
}

// reassign changes an assignment.
func (r *rig) reassign(w *work, change func(*record.Assignment)) {
	r.t.Helper()
	change(&w.assignment)
	w.revision = r.put(record.AssignmentKey(clusterID, w.job, w.n), w.assignment)
}

// jobReport is the present report about an attempt, or nil.
func (r *rig) jobReport(w *work) *record.JobReport {
	r.t.Helper()
	kv, ok := r.mirror.Snapshot().KV(record.JobReportKey(clusterID, w.job, w.n))
	if !ok {
		return nil
	}
	got, err := store.Decode[record.JobReport](kv)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// awaitJob waits for a report with one of the states.
func (r *rig) awaitJob(w *work, states ...record.JobState) *record.JobReport {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	feed := r.mirror.Feed()
	defer feed.Close()
	for {
		last := r.jobReport(w)
		if last != nil && slices.Contains(states, last.State) {
			return last
		}
		if _, err := feed.Next(ctx); err != nil {
			r.t.Fatalf("no report %v of the job; last: %+v", states, last)
		}
	}
}

// jobStates are all states that were ever reported of an attempt, in order.
func (r *rig) jobStates(w *work) string {
	r.t.Helper()
	view, err := r.store.Read(r.t.Context(), record.DesiredClusterKey(clusterID))
	if err != nil {
		r.t.Fatal(err)
	}
	var states []string
	key := record.JobReportKey(clusterID, w.job, w.n)
	if err := r.store.History(r.t.Context(), key, 1, view.Revision, func(_ int64, events []store.Event) error {
		for _, ev := range events {
			if ev.Key == key && !ev.Deleted {
				got, err := store.Decode[record.JobReport](ev.KV)
				if err != nil {
					return err
				}
				states = append(states, string(got.State))
			}
		}
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return strings.Join(states, " ")
}

// running makes a replica ready and runs a syncer.
func (r *rig) jobReady(name string) *replica {
	r.t.Helper()
	p := newReplica(name)
	r.makeReady(p)
	return p
}

var quick = &oscarsim.Workload{Seed: 1, Min: 10 * time.Millisecond, Max: 50 * time.Millisecond}

func (r *rig) startsOf(w *work) int { return r.sim.Starts().Names[w.assignment.Name] }

func TestAJobRuns(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Workload: quick})
		r.start()
		p := r.jobReady("grayify")
		w := newWork(p, `{"olé":"<&>"}`)
		r.assign(w)
		got := r.awaitJob(w, record.JobSucceeded)
		if got.PostedAt == nil || got.StartedAt == nil || got.EndedAt == nil || got.Revision != w.revision {
			t.Errorf("the last report is %+v", got)
		}
		states := r.jobStates(w)
		if !strings.HasPrefix(states, "claimed submitting submitted") || !strings.HasSuffix(states, "succeeded") {
			t.Errorf("reported %q", states)
		}
		jobs := r.sim.Jobs(p.name)
		if len(jobs) != 1 || jobs[0].Name != w.assignment.Name || jobs[0].Event != w.event || r.startsOf(w) != 1 {
			t.Errorf("OSCAR has %+v", jobs)
		}
	})
}

func TestAJobWhoseAnswerIsDoubtfulIsStartedOnce(t *testing.T) {
	for _, fault := range []string{oscarsim.Fault500After, oscarsim.FaultLate, oscarsim.FaultRefuse, oscarsim.FaultHang} {
		t.Run(fault, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Workload: quick})
				r.start()
				p := r.jobReady("grayify")
				w := newWork(p, "event")
				if err := r.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpJob, Fault: fault, Count: 1, Delay: 10 * time.Second}); err != nil {
					t.Fatal(err)
				}
				r.assign(w)
				r.awaitJob(w, record.JobSucceeded)
				r.sim.Settle()
				if n := r.startsOf(w); n != 1 {
					t.Errorf("it was started %d times", n)
				}
			})
		})
	}
}

func TestARefusedJobIsGivenBack(t *testing.T) {
	for name, c := range map[string]struct {
		fault  string
		status int
	}{"denied": {oscarsim.FaultDeny, 401}, "failed": {oscarsim.Fault500, 500}} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Workload: quick})
				r.start()
				p := r.jobReady("grayify")
				w := newWork(p, "event")
				r.fault(oscarsim.OpJob, c.fault, 0)
				r.assign(w)
				got := r.awaitJob(w, record.JobRefused)
				if got.Status != c.status || got.Reason != record.JobOscarRefused || got.Message == "" || strings.Contains(got.Message, p.token) {
					t.Errorf("report %+v", got)
				}
				if calls := r.sim.Calls()[oscarsim.OpJob]; calls != 1 || r.startsOf(w) != 0 {
					t.Errorf("%d POSTs, %d starts", calls, r.startsOf(w))
				}
			})
		})
	}
}

func TestAJobWithoutItsEventIsRefused(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := r.jobReady("grayify")
		lost, foreign, moved := newWork(p, "event"), newWork(p, "event"), newWork(p, "event")
		r.put(record.AssignmentKey(clusterID, lost.job, lost.n), lost.assignment)
		sealed, err := seal.Seal(seal.Header{Purpose: seal.PurposeEvent, Cluster: clusterID, UID: foreign.job, Generation: 1}, []byte("e"), newIdentity(t).Recipient())
		if err != nil {
			t.Fatal(err)
		}
		r.put(record.AssignedEventKey(clusterID, foreign.job, foreign.n), record.Event{V: 1, Sealed: sealed})
		r.put(record.AssignmentKey(clusterID, foreign.job, foreign.n), foreign.assignment)
		other, err := seal.Seal(seal.Header{Purpose: seal.PurposeEvent, Cluster: clusterID, UID: lost.job, Generation: 1}, []byte("e"), r.identity.Recipient())
		if err != nil {
			t.Fatal(err)
		}
		r.put(record.AssignedEventKey(clusterID, moved.job, moved.n), record.Event{V: 1, Sealed: other})
		r.put(record.AssignmentKey(clusterID, moved.job, moved.n), moved.assignment)
		for _, w := range []*work{lost, foreign, moved} {
			if got := r.awaitJob(w, record.JobRefused); got.Reason != record.JobEventLost {
				t.Errorf("report %+v", got)
			}
		}
		if r.sim.Calls()[oscarsim.OpJob] != 0 {
			t.Error("OSCAR was asked")
		}
	})
}

// TestAJobOfAServiceThatCannotBeOpenedIsGivenBack: the identity file of the syncer was replaced.
func TestAJobOfAServiceThatCannotBeOpenedIsGivenBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		stop := r.start()
		w := newWork(r.jobReady("grayify"), "event")
		stop()
		r.identity = newIdentity(t)
		r.start()
		r.assign(w)
		if got := r.awaitJob(w, record.JobRefused); got.Reason != record.JobWithdrawn || got.PostedAt != nil {
			t.Errorf("report %+v", got)
		}
	})
}

// TestAJobThatStandsIsNotRefused: one that was given back to its cluster stands there, and may run: what keeps it from being
// posted does not matter. Refused, it would start elsewhere besides.
func TestAJobThatStandsIsNotRefused(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := r.jobReady("grayify")
		w := newWork(p, "event")
		name, err := r.sim.AddJob(p.name, oscarsim.JobPending)
		if err != nil {
			t.Fatal(err)
		}
		w.assignment.Name, w.assignment.Posted = name, true
		r.put(record.AssignmentKey(clusterID, w.job, w.n), w.assignment) // and its event is lost
		if got := r.awaitJob(w, record.JobSubmitted, record.JobRefused); got.State != record.JobSubmitted {
			t.Errorf("report %+v", got)
		}
		if err := r.sim.SetJobStatus(p.name, name, oscarsim.JobSucceeded); err != nil {
			t.Fatal(err)
		}
		r.awaitJob(w, record.JobSucceeded)
		if r.sim.Calls()[oscarsim.OpJob] != 0 {
			t.Error("OSCAR was asked")
		}
	})
}

func TestAJobIsNotPostedWhereItsServiceIsNot(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := r.jobReady("grayify")
		other := newReplica("grayify") // another life under the name
		w := newWork(other, "event")
		nowhere := newWork(newReplica("nowhere"), "event")
		r.assign(w, nowhere)
		for _, w := range []*work{w, nowhere} {
			if got := r.awaitJob(w, record.JobRefused); got.Reason != record.JobServiceGone {
				t.Errorf("report %+v", got)
			}
		}
		late := newReplica("late")
		waits := newWork(late, "event")
		r.assign(waits)
		if n := len(r.sim.Jobs(p.name)); n != 0 {
			t.Errorf("%d jobs", n)
		}
	})
}

func TestACancelledJobIsDeleted(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Workload: &oscarsim.Workload{Seed: 1, Min: time.Hour, Max: time.Hour}})
		r.start()
		p := r.jobReady("grayify")
		w := newWork(p, "event")
		r.assign(w)
		r.awaitJob(w, record.JobRunning)
		r.reassign(w, func(a *record.Assignment) { a.Cancel = true })
		r.awaitJob(w, record.JobCancelled)
		if jobs := r.sim.Jobs(p.name); len(jobs) != 0 {
			t.Errorf("OSCAR still has %+v", jobs)
		}
	})
}

func TestAJobThatIsGoneHasVanished(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := r.jobReady("grayify")
		w, stays := newWork(p, "event"), newWork(p, "event")
		r.assign(w, stays)
		r.awaitJob(w, record.JobSubmitted)
		r.awaitJob(stays, record.JobSubmitted)
		if err := r.sim.DeleteJob(p.name, w.assignment.Name); err != nil {
			t.Fatal(err)
		}
		r.awaitJob(w, record.JobVanished)
		if got := r.jobReport(stays); got.State != record.JobSubmitted {
			t.Errorf("the other job is %+v", got)
		}
		if n := r.startsOf(w); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

func TestManyJobsAreReportedInFewRevisions(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Workload: quick, Nodes: []oscarsim.Node{{Name: "n", CPU: 1 << 40, Memory: 1 << 60}}})
		r.start()
		p := r.jobReady("grayify")
		var all []*work
		for i := range 400 {
			all = append(all, newWork(p, fmt.Sprint("event ", i)))
		}
		before := r.put("/test/before", "x")
		r.assign(all...)
		for _, w := range all {
			r.awaitJob(w, record.JobSucceeded)
		}
		after := r.put("/test/after", "x")
		for _, w := range all {
			if n := r.startsOf(w); n != 1 {
				t.Fatalf("started %d times", n)
			}
		}
		revisions := int(after-before) - 7 // of the assignments
		t.Logf("%d revisions for %d jobs", revisions, len(all))
		if revisions > len(all) {
			t.Errorf("%d revisions for %d jobs", revisions, len(all))
		}
	})
}

// TestKilledAtEveryFailPointOfAJob kills the syncer at each point of a job's
// way. Its successor knows what it cannot know, starts nothing twice, and ends all.
func TestKilledAtEveryFailPointOfAJob(t *testing.T) {
	for _, point := range syncer.JobFailPoints() {
		t.Run(point, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Workload: quick})
				died := r.startDying(point)
				p := r.jobReady("grayify")
				w := newWork(p, "event")
				r.assign(w)
				want := []record.JobState{record.JobSucceeded}
				if point == "syncer.after_submitting" || point == "syncer.before_post" {
					want = []record.JobState{record.JobVanished}
				}
				r.awaitJob(w, want...)
				<-died
				r.resynced() // by the successor
				n := r.startsOf(w)
				if n > 1 || n == 0 != (want[0] == record.JobVanished) {
					t.Errorf("it was started %d times: %s", n, r.jobStates(w))
				}
			})
		})
	}
}

// TestASessionEndsAtEveryPointOfAJob has the session lost at each point of a job's way, as when etcd is away for longer
// than a session lives. The same process goes on in a session of its own: what it had begun and not sent it sends, and
// no job is left in doubt or started twice.
func TestASessionEndsAtEveryPointOfAJob(t *testing.T) {
	for _, point := range syncer.JobFailPoints() {
		t.Run(point, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Workload: quick, Latency: 20 * time.Millisecond})
				reached := make(chan struct{})
				cfg := r.config("syncer")
				cfg.FailPoints = failpoint.At(point, func() {
					r.revokeSession()
					<-time.After(2 * time.Minute)
					close(reached)
				})
				s := world.Must(syncer.New(cfg))(t)
				r.run("the syncer", s.Run)
				w := newWork(r.jobReady("grayify"), "event")
				r.assign(w)
				<-reached
				r.awaitJob(w, record.JobSucceeded)
				if n := r.startsOf(w); n != 1 {
					t.Errorf("it was started %d times: %s", n, r.jobStates(w))
				}
			})
		})
	}
}

// TestStoppedAtEveryPointOfAJob stops the syncer in order, as an upgrade does, at each point of a job's way. What
// it has said that it does it finishes, so its successor runs every job, and starts none twice.
func TestStoppedAtEveryPointOfAJob(t *testing.T) {
	for _, point := range syncer.JobFailPoints() {
		t.Run(point, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Workload: quick, Latency: 20 * time.Millisecond})
				reached := make(chan struct{})
				stopping, stop := context.WithCancel(t.Context())
				cfg := r.config("syncer")
				cfg.FailPoints = failpoint.At(point, func() { stop(); close(reached) })
				ending := world.Must(syncer.New(cfg))(t)
				successor := world.Must(syncer.New(r.config("successor")))(t)
				r.run("the syncers", func(ctx context.Context) error {
					if err := ending.Run(stopping); err != nil {
						return err
					}
					return successor.Run(ctx)
				})
				w := newWork(r.jobReady("grayify"), "event")
				r.assign(w)
				r.awaitJob(w, record.JobSucceeded)
				<-reached
				if n := r.startsOf(w); n != 1 {
					t.Errorf("it was started %d times: %s", n, r.jobStates(w))
				}
			})
		})
	}
}
