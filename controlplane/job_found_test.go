package controlplane_test

import (
	"bytes"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/recovery"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// lists says that a cluster has told of all its Jobs in an epoch.
func (p *fakeSyncer) lists(epoch string) {
	p.write(record.ObservedClusterKey(p.cluster), record.ObservedCluster{
		V: record.Version, Recipient: p.identity.Recipient(), OscarVersion: "v4.1.2", Epoch: epoch, JobsEpoch: epoch,
	})
}

// finds reports an attempt that no assignment asks for.
func (p *fakeSyncer) finds(service, job string, attempt int, state record.JobState, epoch string) {
	at := record.At(time.Now())
	p.write(record.JobReportKey(p.cluster, job, attempt), record.JobReport{
		V: record.Version, State: state, Found: true, Service: service, PostedAt: &at, LastTransitionTime: at, Epoch: epoch,
	})
}

// restore gives the store a new epoch, as a control plane does that notices a restore.
func (w *world) restore() string {
	w.t.Helper()
	epoch, err := recovery.Renew(w.t.Context(), w.store, "", time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	// A fresh read waits until the instance has seen the epoch: it refuses jobs before.
	if _, _, err := w.Jobs.List(w.t.Context(), admin, jobs.Query{}); err != nil {
		w.t.Fatal(err)
	}
	return epoch
}

// TestAfterARestoreNothingIsStartedAgain that may stand somewhere: not before every
// member has told of its Jobs, and not what one of them has found.
func TestAfterARestoreNothingIsStartedAgain(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		unclaimed := w.submit()
		p, _ := w.at(unclaimed.ID)
		for _, p := range w.clusters {
			p.has(1)
		}
		moved, held, away := w.submit(), w.submit(), w.submit()
		w.clusters["c"].disconnect()
		epoch := w.restore()
		w.clusters["a"].has(4000, 4000)
		w.clusters["b"].has(4000, 4000)
		late := w.submit()
		unknown := uuid.Must(uuid.NewV7()).String()
		w.clusters["b"].finds("grayifyr1", moved.ID, 3, record.JobRunning, epoch)
		w.clusters["b"].finds("grayifyr1", unknown, 2, record.JobSucceeded, epoch)
		if got := w.is(moved.ID, record.JobRunning); got.Attempt != 3 || got.Place.ClusterID != "b" || got.Reason != record.JobStoreRestored {
			t.Errorf("%+v", got)
		}
		w.eventually(func() bool { _, err := w.Jobs.Get(t.Context(), admin, unknown); return err == nil })
		if got := w.is(unknown, record.JobSucceeded); got.Attempt != 2 || got.Service != "grayifyr1" || got.GroupID != "grayifyr0" {
			t.Errorf("%+v", got)
		}
		w.clusters["a"].lists(epoch)
		if got, err := w.Jobs.Get(t.Context(), admin, late.ID); err != nil || got.State != record.JobQueued || got.Held {
			t.Errorf("b has not listed: %+v %v", got, err)
		}
		w.clusters["b"].lists(epoch)
		// c is away: what came since goes on, and what it might have is held.
		w.at(late.ID)
		for _, id := range []string{held.ID, away.ID} {
			if got, err := w.Jobs.Get(t.Context(), admin, id); err != nil || got.State != record.JobQueued || !got.Held {
				t.Errorf("%+v %v", got, err)
			}
		}
		if _, err := w.Jobs.Replay(t.Context(), admin, jobs.Order{Job: away.ID}); err != nil {
			t.Fatal(err)
		}
		w.at(away.ID)
		w.clusters["c"].connect()
		w.clusters["c"].has(4000, 4000)
		w.clusters["c"].lists(epoch)
		w.at(held.ID)
		// It was assigned in the history before, unclaimed: it is taken back and assigned anew.
		again := w.becomes(unclaimed.ID, func(j *jobs.Job) bool { return j.State == record.JobAssigned && j.Attempt == 2 })
		if again.Attempts[0].Reason != record.JobStoreRestored || again.Attempts[0].ClusterID != p.cluster {
			t.Errorf("%+v", again)
		}
		b := w.clusters["b"]
		b.says(moved.ID, 3, record.JobSucceeded)
		w.is(moved.ID, record.JobSucceeded)
		// The report is shown before it is decided on.
		w.eventually(func() bool { return len(w.leaves(moved.ID)) == 1 })
	})
}

// TestAJobThatIsCancelledAfterARestoreEndsWhereItIsFound: the store says that it waits, or that nobody has claimed it, and it
// runs.
func TestAJobThatIsCancelledAfterARestoreEndsWhereItIsFound(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		unclaimed := w.submit()
		p, assigned := w.at(unclaimed.ID)
		for _, p := range w.clusters {
			p.has(1)
		}
		queued := w.submit()
		epoch := w.restore()
		for i, id := range []string{unclaimed.ID, queued.ID} {
			attempt := i + 1
			if _, err := w.Jobs.Cancel(t.Context(), admin, jobs.Order{Job: id}); err != nil {
				t.Fatal(err)
			}
			w.is(id, record.JobCancelled)
			p.finds(assigned.Place.ServiceName, id, attempt, record.JobRunning, epoch)
			w.is(id, record.JobRunning)
			if a := p.standing(); len(a) != 1 || a[0].Job != id || !a[0].Cancel {
				t.Errorf("its syncer is asked for %+v", a)
			}
			p.says(id, attempt, record.JobCancelled)
			w.is(id, record.JobCancelled)
			w.eventually(func() bool { return len(p.standing()) == 0 })
		}
	})
}

// TestAFoundJobIsNotOfTheFuture: its id is what the cluster says, and a version 7 reaches to the year 10889.
func TestAFoundJobIsNotOfTheFuture(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		epoch := w.restore()
		const late = "ffffffff-ffff-7fff-bfff-ffffffffffff"
		w.clusters["b"].finds("grayifyr1", late, 1, record.JobSucceeded, epoch)
		w.eventually(func() bool { _, err := w.Jobs.Get(t.Context(), admin, late); return err == nil })
		if got := w.is(late, record.JobSucceeded); got.AcceptedAt.After(time.Now()) {
			t.Errorf("it was accepted at %v", got.AcceptedAt)
		}
	})
}

// TestNoRecordOfAFoundJobThatHasNoID: its record would not be the one of its key.
func TestNoRecordOfAFoundJobThatHasNoID(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		epoch := w.restore()
		b := w.clusters["b"]
		for _, id := range []string{"\xff", "\xfe", strings.Repeat("x", 1000), "FFFFFFFF-FFFF-7FFF-BFFF-FFFFFFFFFFFF"} {
			b.finds("grayifyr1", id, 1, record.JobSucceeded, epoch)
			b.finds("grayifyr1", id, 2, record.JobRunning, epoch)
		}
		known := uuid.NewString()
		b.finds("grayifyr1", known, 1, record.JobSucceeded, epoch)
		w.eventually(func() bool { _, err := w.Jobs.Get(t.Context(), admin, known); return err == nil })
		if err := w.Jobs.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		shown, _, err := w.Jobs.List(t.Context(), admin, jobs.Query{})
		if err != nil {
			t.Fatal(err)
		}
		kvs, _, err := w.store.List(t.Context(), record.JobsPrefix)
		if err != nil || len(kvs) != 1 || len(shown) != 1 {
			t.Errorf("%d records, %d are shown: %v", len(kvs), len(shown), err)
		}
	})
}

// TestAFoundAttemptThatNoJobCanHaveHadCountsForNothing: the next one would have no number.
func TestAFoundAttemptThatNoJobCanHaveHadCountsForNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		for _, p := range w.clusters {
			p.has(1)
		}
		known, unknown := w.submit(), uuid.Must(uuid.NewV7()).String()
		epoch := w.restore()
		for _, id := range []string{known.ID, unknown} {
			w.clusters["c"].finds("grayifyr2", id, math.MaxInt, record.JobRunning, epoch)
			w.clusters["c"].finds("grayifyr2", id, record.MaxFoundAttempt+1, record.JobSucceeded, epoch)
		}
		for _, id := range []string{known.ID, unknown} {
			w.clusters["b"].finds("grayifyr1", id, 2, record.JobRunning, epoch)
			w.eventually(func() bool { _, err := w.Jobs.Get(t.Context(), admin, id); return err == nil })
			if got := w.is(id, record.JobRunning); got.Attempt != 2 || got.Place.ClusterID != "b" {
				t.Errorf("%+v", got)
			}
		}
	})
}

// TestWhatIsFoundOfAFailedJobLeavesItsEvent: the Job stands at its OSCAR for days, and after a restore it is found there. A job whose
// event is lost is not replayed.
func TestWhatIsFoundOfAFailedJobLeavesItsEvent(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		failed := w.submit()
		p, assigned := w.at(failed.ID)
		for _, state := range []record.JobState{record.JobClaimed, record.JobSubmitting, record.JobSubmitted, record.JobFailed} {
			p.says(failed.ID, 1, state)
		}
		w.is(failed.ID, record.JobFailed)
		for _, p := range w.clusters {
			p.has(1)
		}
		queued, cancelled := w.submit(), w.submit()
		service, unknown, running := assigned.Place.ServiceName, uuid.Must(uuid.NewV7()).String(), uuid.Must(uuid.NewV7()).String()
		epoch := w.restore()
		if _, err := w.Jobs.Cancel(t.Context(), admin, jobs.Order{Job: cancelled.ID}); err != nil {
			t.Fatal(err)
		}
		w.is(cancelled.ID, record.JobCancelled)
		for _, id := range []string{failed.ID, queued.ID, unknown} {
			p.finds(service, id, 1, record.JobFailed, epoch)
		}
		for _, id := range []string{running, cancelled.ID} {
			p.finds(service, id, 1, record.JobRunning, epoch)
			w.eventually(func() bool { _, err := w.Jobs.Get(t.Context(), admin, id); return err == nil })
			w.is(id, record.JobRunning)
			p.says(id, 1, record.JobFailed)
		}
		w.eventually(func() bool { return len(w.keys(record.JobReportsPrefix(p.cluster))) == 0 })
		for name, c := range map[string]struct {
			id   string
			kept bool
		}{"failed": {failed.ID, true}, "queued": {queued.ID, true}, "unknown": {unknown, false}, "unknown, and ran": {running, false}, "cancelled, and ran": {cancelled.ID, false}} {
			w.is(c.id, record.JobFailed)
			if _, err := w.store.Get(t.Context(), record.EventKey(c.id)); (err == nil) != c.kept {
				t.Errorf("%s: its event: %v", name, err)
			}
			if _, err := w.Jobs.Replay(t.Context(), admin, jobs.Order{Job: c.id}); (err == nil) != c.kept {
				t.Errorf("%s: it is replayed: %v", name, err)
			}
		}
	})
}

// TestNoJobIsFoundInAStateThatOnlyTheStoreGives: one that is parked is replayed, and of an unknown one there is no event.
func TestNoJobIsFoundInAStateThatOnlyTheStoreGives(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		epoch := w.restore()
		states := []record.JobState{record.JobParked, record.JobReturned, record.JobSucceeded}
		var ids []string
		for _, state := range states {
			ids = append(ids, uuid.Must(uuid.NewV7()).String())
			w.clusters["b"].finds("grayifyr1", ids[len(ids)-1], 1, state, epoch)
		}
		<-time.After(time.Minute)
		for i, id := range ids {
			if _, err := w.Jobs.Get(t.Context(), admin, id); (err == nil) != (states[i] == record.JobSucceeded) {
				t.Errorf("%s: %v", states[i], err)
			}
		}
	})
}

// TestAClusterBringsNoMoreUnknownJobsThanOneMay: it can make them up. The others wait, also those that run when they are as many.
// What other clusters find does not wait, nor what is found of known jobs.
func TestAClusterBringsNoMoreUnknownJobsThanOneMay(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const most = 3
		var mu sync.Mutex
		log := &bytes.Buffer{}
		w := newJobWorld(t, func(cfg *controlplane.Config) {
			cfg.KeepJobsEach, cfg.SweepInterval = most, time.Minute
			cfg.Logger = slog.New(slog.NewTextHandler(lockedWriter{&mu, log}, nil))
		})
		for _, p := range w.clusters {
			p.has(1)
		}
		known := w.submit()
		epoch := w.restore()
		there := func(id string) bool { _, err := w.Jobs.Get(t.Context(), admin, id); return err == nil }
		find := func(at string, n int, state record.JobState) (ids []string) {
			for range n {
				id := uuid.Must(uuid.NewV7()).String()
				w.clusters[at].finds(map[string]string{"a": "grayifyr0", "b": "grayifyr1"}[at], id, 1, state, epoch)
				<-time.After(time.Minute)
				ids = append(ids, id)
			}
			return ids
		}
		ended, running := find("b", most+2, record.JobSucceeded), find("b", most+1, record.JobRunning)
		for i, id := range slices.Concat(ended, running) {
			if waits := i >= most && i < most+2 || i == len(ended)+most; there(id) == waits {
				t.Errorf("%d of %d: there is a record: %v", i, len(ended)+len(running), !waits)
			}
		}
		if id := find("a", 1, record.JobSucceeded)[0]; !there(id) {
			t.Error("what another cluster has found waits, too")
		}
		w.clusters["b"].finds("grayifyr1", known.ID, 1, record.JobRunning, epoch)
		w.is(known.ID, record.JobRunning)
		for _, id := range running[:most] {
			w.clusters["b"].says(id, 1, record.JobSucceeded)
		}
		<-time.After(time.Second)
		find("a", 1, record.JobSucceeded)
		// The last one that runs takes the place of one that has ended, until it has ended, too. The record of the one that
		// ended first goes with the next clean-up.
		waited := []string{ended[most], ended[most+1], running[most]}
		w.eventually(func() bool {
			if slices.Contains(waited, running[most]) && there(running[most]) {
				w.clusters["b"].says(running[most], 1, record.JobSucceeded)
			}
			waited = slices.DeleteFunc(waited, there)
			return len(waited) == 0
		})
		mu.Lock()
		defer mu.Unlock()
		if n := strings.Count(log.String(), "more jobs that nobody knows"); n != 1 {
			t.Errorf("it is told %d times", n)
		}
	})
}

// lockedWriter is a log that several write to.
type lockedWriter struct {
	mu *sync.Mutex
	to *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
