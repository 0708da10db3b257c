package syncer_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// poster lets a test stand between a syncer and the POST of a job.
type poster struct {
	syncer.OSCAR
	submit func(ctx context.Context, job manager.Submission, timeout time.Duration) error
}

func (p *poster) Submit(ctx context.Context, job manager.Submission, timeout time.Duration) error {
	return p.submit(ctx, job, timeout)
}

// TestAJobWhoseSessionWasLostWhileItWasPosted: the POST is under way when the session
// ends. The next session does not post it, says that it does not know, and sees it when
// OSCAR has made it at last.
func TestAJobWhoseSessionWasLostWhileItWasPosted(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Workload: quick})
		inner := r.oscar("syncer")
		reached, release, arrived := make(chan struct{}, 16), make(chan struct{}), make(chan struct{})
		let := sync.OnceFunc(func() { close(release) })
		t.Cleanup(func() { let(); <-arrived })
		r.start(func(c *syncer.Config) {
			c.LateWindow = patience
			c.OSCAR = &poster{OSCAR: inner, submit: func(ctx context.Context, job manager.Submission, _ time.Duration) error {
				reached <- struct{}{}
				go func() { // the request stays in the network
					defer close(arrived)
					<-release
					_ = inner.Submit(context.WithoutCancel(ctx), job, time.Minute)
				}()
				<-ctx.Done()
				return &manager.APIError{Op: manager.OpSubmit, Err: ctx.Err()}
			}}
		})
		p := r.jobReady("grayify")
		w := newWork(p, "event")
		before := r.sessionRevision()
		r.assign(w)
		<-reached
		r.revokeSession()
		r.eventually("the next session", func() bool { return r.hasSession() && r.sessionRevision() != before })
		got := r.awaitJob(w, record.JobUncertain)
		if got.Session != before || got.Reason != record.JobNoAnswer || got.PostedAt == nil {
			t.Errorf("report %+v", got)
		}
		let()
		r.awaitJob(w, record.JobSucceeded)
		if n := r.startsOf(w); n != 1 || len(reached) != 0 {
			t.Errorf("it was started %d times, and posted %d times more", n, len(reached))
		}
	})
}

// TestAJobThatOscarNeverAnswers is posted again for a while, then uncertain, and has
// vanished when no POST can take effect any more.
func TestAJobThatOscarNeverAnswers(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Workload: quick})
		r.start()
		p := r.jobReady("grayify")
		r.fault(oscarsim.OpJob, oscarsim.FaultHang, 0)
		w, other := newWork(p, "event"), newWork(p, "event")
		r.assign(w)
		r.awaitJob(w, record.JobUncertain)
		if n := r.sim.Calls()[oscarsim.OpJob]; n < 2 {
			t.Errorf("it was posted %d times", n)
		}
		r.assign(other)
		r.awaitJob(other, record.JobUncertain)
		r.reassign(other, func(a *record.Assignment) { a.Resolved = record.JobSubmitted })
		if got := r.awaitJob(other, record.JobSubmitted, record.JobVanished); got.Reason != record.JobResolved {
			t.Errorf("resolved: %+v", got)
		}
		posts := r.sim.Calls()[oscarsim.OpJob]
		r.awaitJob(w, record.JobVanished)
		r.awaitJob(other, record.JobVanished)
		if n := r.sim.Calls()[oscarsim.OpJob]; n != posts {
			t.Errorf("it was posted %d times more after it was uncertain", n-posts)
		}
	})
}

// TestNothingIsPostedWhileEtcdIsAway: what was claimed waits, and what was posted and
// not answered is not posted again.
func TestNothingIsPostedWhileEtcdIsAway(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Workload: quick})
		inner := r.oscar("syncer")
		reached := make(chan struct{}, 1000)
		var away, posts = make(chan struct{}), 0
		r.start(func(c *syncer.Config) {
			c.Jobs.Posts = 1
			c.OSCAR = &poster{OSCAR: inner, submit: func(ctx context.Context, job manager.Submission, timeout time.Duration) error {
				if posts++; posts == 1 { // one slot: never at the same time
					reached <- struct{}{}
					<-away
					return &manager.APIError{Op: manager.OpSubmit, Err: context.DeadlineExceeded}
				}
				return inner.Submit(ctx, job, timeout)
			}}
		})
		p := r.jobReady("grayify")
		var all []*work
		for i := range 50 {
			all = append(all, newWork(p, fmt.Sprint("event ", i)))
		}
		session := r.sessionRevision()
		r.assign(all...)
		<-reached
		back := r.etcdGone()
		close(away)
		r.eventually("the session ends", func() bool { return !r.hasSession() })
		if n := r.sim.Calls()[oscarsim.OpJob]; n != 0 {
			t.Errorf("%d jobs were posted while etcd was away", n)
		}
		back()
		vanished := 0
		for _, w := range all {
			if r.awaitJob(w, record.JobSucceeded, record.JobVanished).State == record.JobVanished {
				vanished++
			}
			if n := r.startsOf(w); n > 1 {
				t.Errorf("started %d times", n)
			}
		}
		if vanished != 1 || r.sessionRevision() == session {
			t.Errorf("%d jobs have vanished, want the one that was posted when etcd went away", vanished)
		}
	})
}

// TestAServiceIsDeletedWhenItsJobsAreReported: its DELETE would hide how they ended.
func TestAServiceIsDeletedWhenItsJobsAreReported(t *testing.T) {
	for _, order := range []string{"", "cancel"} {
		t.Run("jobs="+order, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Workload: &oscarsim.Workload{Seed: 1, Min: 10 * time.Minute, Max: 10 * time.Minute}})
				r.start()
				p := r.jobReady("grayify")
				w, after := newWork(p, "event"), newWork(p, "event")
				r.assign(w)
				r.awaitJob(w, record.JobRunning)
				r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause, d.Jobs = record.CauseDeleted, order })
				r.assign(after)
				if got := r.awaitJob(after, record.JobRefused); got.Reason != record.JobServiceGone {
					t.Errorf("report %+v", got)
				}
				want := record.JobCancelled
				if order == "" {
					r.await(p, record.PhaseDeleting, because(record.ReasonJobsRunning))
					if err := r.sim.SetJobStatus(p.name, w.assignment.Name, oscarsim.JobSucceeded); err != nil {
						t.Fatal(err)
					}
					want = record.JobSucceeded
				}
				r.awaitJob(w, want)
				r.await(p, record.PhaseDeleted)
			})
		})
	}
}

// TestJobsThatARestoredStoreDoesNotKnowAreFound: in a new epoch what stands and nobody
// asks for is reported, once, and then the epoch is said to be known. In the same epoch
// the like is left alone.
func TestJobsThatARestoredStoreDoesNotKnowAreFound(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Workload: quick})
		stop := r.start()
		p := r.jobReady("grayify")
		forgotten, unclaimed, late := newWork(p, "event"), newWork(p, "event"), newWork(p, "event")
		r.assign(forgotten, unclaimed)
		r.awaitJob(forgotten, record.JobSucceeded)
		r.awaitJob(unclaimed, record.JobSucceeded)
		for _, w := range []*work{forgotten, unclaimed} {
			r.remove(record.AssignmentKey(clusterID, w.job, w.n), record.JobReportKey(clusterID, w.job, w.n))
		}
		r.resynced()
		if r.jobReport(forgotten) != nil {
			t.Error("it was reported in the same epoch")
		}
		stop()
		// An older store: one is not known at all, the other is assigned and not claimed yet.
		r.assign(unclaimed, late)
		r.put(record.DesiredClusterKey(clusterID), record.DesiredCluster{V: 1, ClusterID: clusterID, UID: "registered-first",
			State: record.ClusterActive, Epoch: "second", RestoredAt: new(record.At(time.Now()))})
		r.start()
		var got *record.JobReport
		r.eventually("what was forgotten is found", func() bool { got = r.jobReport(forgotten); return got != nil })
		r.remove(record.JobReportKey(clusterID, forgotten.job, forgotten.n)) // as the control plane does, which takes it over
		r.eventually("the epoch is known", func() bool { return r.cluster().JobsEpoch == "second" })
		if !got.Found || got.State != record.JobSucceeded || got.Service != p.name || got.Epoch != "second" {
			t.Errorf("found: %+v", got)
		}
		if got := r.awaitJob(unclaimed, record.JobSucceeded); !got.Found {
			t.Errorf("no assignment of the present epoch asks for it: %+v", got)
		}
		if got := r.jobReport(late); got != nil {
			t.Errorf("it was claimed, and is of the epoch before: %+v", got)
		}
		if r.startsOf(forgotten) != 1 || r.startsOf(unclaimed) != 1 || r.startsOf(late) != 0 {
			t.Error("something was started again")
		}
		reports := 0
		key := record.JobReportKey(clusterID, forgotten.job, 1)
		if err := r.store.History(t.Context(), key, 1, r.put("/test/now", 1), func(_ int64, events []store.Event) error {
			reports += len(slices.DeleteFunc(events, func(ev store.Event) bool {
				return ev.Key != key || ev.Deleted || !bytes.Contains(ev.Value, []byte(`"found":true`))
			}))
			return nil
		}); err != nil || reports != 1 {
			t.Errorf("found %d times, %v", reports, err)
		}
	})
}

// TestTheJobsOfAnEpochAreKnownWhenThoseWithAnAssignmentAreReported: the control plane takes back what was assigned
// before a restore and is not reported then. The report is late here.
func TestTheJobsOfAnEpochAreKnownWhenThoseWithAnAssignmentAreReported(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Workload: quick})
		var report atomic.Value
		late := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if txn, ok := req.(*etcdserverpb.TxnRequest); ok && slices.ContainsFunc(txn.Success, func(op *etcdserverpb.RequestOp) bool {
				return op.GetRequestPut() != nil && string(op.GetRequestPut().Key) == report.Load()
			}) {
				<-time.After(2 * time.Second)
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		r.start(func(c *syncer.Config) {
			c.Store = r.open("syncer", store.Config{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(late)}})
		})
		w := newWork(r.jobReady("grayify"), "event")
		r.assign(w)
		r.awaitJob(w, record.JobSucceeded)
		key := record.JobReportKey(clusterID, w.job, w.n)
		r.remove(record.AssignmentKey(clusterID, w.job, w.n), key)
		<-time.After(time.Hour) // what the session has sent is known by then
		report.Store(key)
		if _, err := r.store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Put(record.DesiredClusterKey(clusterID), record.DesiredCluster{V: 1, ClusterID: clusterID, UID: "registered-first",
				State: record.ClusterActive, Epoch: "second", RestoredAt: new(record.At(time.Now()))})
			tx.Put(record.AssignmentKey(clusterID, w.job, w.n), w.assignment)
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		r.eventually("the epoch is known", func() bool { return r.cluster().JobsEpoch == "second" })
		if got := r.jobReport(w); got == nil || got.State != record.JobSucceeded {
			t.Errorf("its Jobs are said to be known, and of this one is told: %+v", got)
		}
	})
}

// TestAHalfCreatedServiceDoesNotHideTheJobsOfOthersAfterARestore: OSCAR cannot list what it
// has, and nobody desires it, so that nothing heals it. The federations of the cluster do
// not wait for it.
func TestAHalfCreatedServiceDoesNotHideTheJobsOfOthersAfterARestore(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Workload: quick})
		stop := r.start()
		p, half := r.jobReady("grayify"), r.jobReady("a-half")
		w := newWork(p, "event")
		r.assign(w)
		r.awaitJob(w, record.JobSucceeded)
		stop()
		r.remove(record.AssignmentKey(clusterID, w.job, w.n), record.JobReportKey(clusterID, w.job, w.n),
			record.DesiredServiceKey(clusterID, half.name), record.ObservedServiceKey(clusterID, half.name))
		lost := newWork(half, "event")
		r.put(record.JobReportKey(clusterID, lost.job, lost.n), record.JobReport{V: 1, State: record.JobRunning, Found: true, Service: half.name,
			Epoch: "first", Reason: record.JobStoreRestored, LastTransitionTime: record.At(time.Now())})
		r.put(record.JobReportKey(clusterID, newWork(half, "event").job, 1), 7) // nobody can read it
		r.sim.HalfCreate(half.name)
		r.put(record.DesiredClusterKey(clusterID), record.DesiredCluster{V: 1, ClusterID: clusterID, UID: "registered-first",
			State: record.ClusterActive, Epoch: "second", RestoredAt: new(record.At(time.Now()))})
		r.start()
		r.eventually("the epoch is known", func() bool { return r.cluster().JobsEpoch == "second" })
		if got := r.jobReport(w); got == nil || !got.Found || got.State != record.JobSucceeded || got.Epoch != "second" {
			t.Errorf("found: %+v", got)
		}
		if got := r.jobReport(lost); got == nil || got.State != record.JobRunning || got.Epoch != "first" {
			t.Errorf("of a service that cannot be listed it is said: %+v", got)
		}
		if got := r.cluster().Unlisted; len(got) != 1 || got[0].ServiceName != half.name || got[0].Reason != record.ReasonCreateFailed || got[0].Message == "" {
			t.Errorf("the cluster's report does not name it: %+v", got)
		}
		// A person heals and deletes it.
		if err := r.sim.PutPodTemplate(half.name); err != nil {
			t.Fatal(err)
		}
		if err := r.removeService(half.name); err != nil {
			t.Fatal(err)
		}
		r.eventually("it is named no more", func() bool { return len(r.cluster().Unlisted) == 0 })
		if r.cluster().JobsEpoch != "second" {
			t.Error("the epoch is not known any more")
		}
	})
}

// TestWhatWasFoundIsToldAgainInTheNextEpoch: two instances may each begin an epoch after one
// restore, and a store may be restored twice. What was found in the first is no report in
// the second; one whose Job is gone by then has vanished.
func TestWhatWasFoundIsToldAgainInTheNextEpoch(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Workload: quick})
		r.start()
		p := r.jobReady("grayify")
		stands, gone := newWork(p, "event"), newWork(p, "event")
		r.assign(stands, gone)
		for _, w := range []*work{stands, gone} {
			r.awaitJob(w, record.JobSucceeded)
			r.remove(record.AssignmentKey(clusterID, w.job, w.n), record.JobReportKey(clusterID, w.job, w.n))
		}
		r.put(record.JobReportKey(clusterID, gone.job, gone.n), record.JobReport{V: 1, State: record.JobRunning, Found: true, Service: p.name,
			Epoch: "first", Reason: record.JobStoreRestored, LastTransitionTime: record.At(time.Now())})
		if err := r.sim.DeleteJob(p.name, gone.assignment.Name); err != nil {
			t.Fatal(err)
		}
		for _, epoch := range []string{"second", "third"} {
			r.put(record.DesiredClusterKey(clusterID), record.DesiredCluster{V: 1, ClusterID: clusterID, UID: "registered-first",
				State: record.ClusterActive, Epoch: epoch, RestoredAt: new(record.At(time.Now()))})
			r.eventually("the epoch is known", func() bool { return r.cluster().JobsEpoch == epoch })
			for w, state := range map[*work]record.JobState{stands: record.JobSucceeded, gone: record.JobVanished} {
				if got := r.jobReport(w); got == nil || !got.Found || got.Epoch != epoch || got.State != state {
					t.Errorf("in the epoch %s: %+v, want %s", epoch, got, state)
				}
			}
		}
		if r.startsOf(stands) != 1 || r.startsOf(gone) != 1 {
			t.Error("something was started again")
		}
	})
}

// TestAnAttemptThatARestoreBroughtBackIsNotPostedAgain: the store was restored to the
// moment in which this very session was asking OSCAR, and the Job has come and gone
// since. Nothing is remembered of it any more, and its record names our session: it is
// looked for, and not begun anew.
func TestAnAttemptThatARestoreBroughtBackIsNotPostedAgain(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Workload: quick})
		r.start()
		p := r.jobReady("grayify")
		w := newWork(p, "event")
		r.assign(w)
		r.awaitJob(w, record.JobSucceeded)
		if err := r.sim.DeleteJob(p.name, w.assignment.Name); err != nil {
			t.Fatal(err)
		}
		assignment, report := record.AssignmentKey(clusterID, w.job, w.n), record.JobReportKey(clusterID, w.job, w.n)
		r.remove(assignment, report)
		// It has ended another attempt since, so that it has forgotten this one.
		other := newWork(p, "other event")
		r.assign(other)
		r.awaitJob(other, record.JobSucceeded)

		// The relisting of a restored store shows it all at once.
		session := r.sessionRevision()
		_, err := r.store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Put(record.DesiredClusterKey(clusterID), record.DesiredCluster{V: 1, ClusterID: clusterID, UID: "registered-first",
				State: record.ClusterActive, Epoch: "second", RestoredAt: new(record.At(time.Now()))})
			tx.Put(assignment, w.assignment)
			tx.Put(report, record.JobReport{V: 1, State: record.JobSubmitting, Session: session, PostedAt: new(record.At(time.Now())),
				LastTransitionTime: record.At(time.Now())})
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		got := r.awaitJob(w, record.JobVanished, record.JobSucceeded)
		if n := r.startsOf(w); n != 1 || got.State != record.JobVanished {
			t.Errorf("it was started %d times, and is %s", n, got.State)
		}
		if now := r.sessionRevision(); now != session {
			t.Errorf("session %d after %d", now, session)
		}
	})
}
