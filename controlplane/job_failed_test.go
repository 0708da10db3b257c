package controlplane_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/runs"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// fails reports that an attempt has failed.
func (p *fakeSyncer) fails(job string, n int, reason record.JobReason) {
	p.t.Helper()
	for _, state := range []record.JobState{record.JobClaimed, record.JobSubmitting, record.JobSubmitted, record.JobRunning} {
		p.says(job, n, state)
	}
	p.says(job, n, record.JobFailed, func(r *record.JobReport) {
		r.Reason, r.Message, r.Pod = reason, "OOMKilled, exit code 137", &record.JobPod{Reason: "OOMKilled", ExitCode: 137}
	})
}

// A job that has failed says why, and is replayed by the order of a person: a new attempt,
// and the one before is remembered.
func TestAFailedJobCanBeReplayed(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		j := w.submit()
		p, _ := w.at(j.ID)
		p.fails(j.ID, 1, record.JobPodFailed)
		failed := w.is(j.ID, record.JobFailed)
		if failed.Pod == nil || failed.Pod.Reason != "OOMKilled" || failed.Pod.ExitCode != 137 || failed.Reason != record.JobPodFailed {
			t.Errorf("%+v", failed)
		}
		w.eventually(func() bool { // its end is taken note of, and its event is kept
			left := strings.Join(w.leaves(j.ID), " ")
			return strings.Contains(left, record.EventKey(j.ID)) && !strings.Contains(left, "/c/")
		})
		if _, err := w.Jobs.Replay(t.Context(), admin, jobs.Order{Job: j.ID}); err != nil {
			t.Fatal(err)
		}
		p, again := w.at(j.ID)
		if again.Attempt != 2 || p.event(j.ID, 2) != secretEvent || again.Pod != nil || again.StartedAt != nil || again.EndedAt != nil {
			t.Errorf("%+v", again)
		}
		if len(again.Attempts) != 1 || again.Attempts[0].State != record.JobFailed || again.Attempts[0].Pod == nil {
			t.Errorf("it remembers %+v", again.Attempts)
		}
		for _, state := range whole() {
			p.says(j.ID, 2, state)
		}
		w.is(j.ID, record.JobSucceeded)
		w.eventually(func() bool { return !strings.Contains(strings.Join(w.leaves(j.ID), " "), record.EventKey(j.ID)) })
	})
}

// TestARepeatedReplayRunsTheJobOnceMore: its answer is lost, and the job has failed again by the time that it is
// repeated, at any instance, or at the same moment.
func TestARepeatedReplayRunsTheJobOnceMore(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		other := w.second()
		j := w.submit()
		runs := func(attempt int) {
			now := w.becomes(j.ID, func(j *jobs.Job) bool { return j.State == record.JobAssigned && j.Attempt == attempt })
			w.clusters[now.Place.ClusterID].fails(j.ID, attempt, record.JobPodFailed)
			w.is(j.ID, record.JobFailed)
		}
		replays := func(cp *controlplane.ControlPlane, key, body string) (*jobs.Job, error) {
			return cp.Jobs.Replay(t.Context(), admin, jobs.Order{Job: j.ID, Repeat: keyed("POST", key, body)})
		}
		runs(1)
		if again, err := replays(w.ControlPlane, "k1", ""); err != nil || again.Replayed {
			t.Fatal(again, err)
		}
		runs(2)
		for _, cp := range []*controlplane.ControlPlane{w.ControlPlane, other} {
			if again, err := replays(cp, "k1", ""); err != nil || !again.Replayed || again.State != record.JobFailed || again.Attempt != 2 {
				t.Errorf("the same replay: %+v, %v", again, err)
			}
		}
		_, err := replays(other, "k1", "of another request")
		refused(t, "the key of another replay", err, fault.CodeFailedPrecondition, "another body")
		var g errgroup.Group
		for range 4 {
			g.Go(func() error { _, err := replays(w.ControlPlane, "k2", ""); return err })
			g.Go(func() error { _, err := replays(other, "k2", ""); return err })
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		runs(3)
		<-time.After(time.Minute)
		if now := w.is(j.ID, record.JobFailed); now.Attempt != 3 {
			t.Errorf("it ran %d times", now.Attempt)
		}
	})
}

// Who sent a job runs it again only while its service is for him, and while another job has a place.
func TestAReplayIsForWhoMayRunTheServiceNow(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t, func(c *controlplane.Config) { c.JobsPerFederation = 1 })
		bob := identity.Caller{Subject: "bob"}
		w.visibleTo("public")
		j, err := w.Jobs.Submit(t.Context(), bob, jobs.Request{Service: "grayifyr0", Event: []byte(secretEvent)})
		if err != nil {
			t.Fatal(err)
		}
		p, _ := w.at(j.ID)
		p.fails(j.ID, 1, record.JobPodFailed)
		w.is(j.ID, record.JobFailed)
		var other *jobs.Job
		w.eventually(func() bool { // its end is taken note of, and gives its place to another
			other, err = w.trySubmit()
			return err == nil
		})
		_, err = w.Jobs.Replay(t.Context(), bob, jobs.Order{Job: j.ID})
		refused(t, "a replay of a job beside as many as are allowed", err, fault.CodeExhausted, "in flight")
		if _, err := w.Jobs.Cancel(t.Context(), admin, jobs.Order{Job: other.ID}); err != nil {
			t.Fatal(err)
		}
		w.visibleTo("private")
		_, err = w.Jobs.Replay(t.Context(), bob, jobs.Order{Job: j.ID})
		refused(t, "a replay by who may not run the service any more", err, fault.CodeForbidden, "not for its sender any more")
		w.eventually(func() bool {
			_, err = w.Jobs.Replay(t.Context(), admin, jobs.Order{Job: j.ID})
			return err == nil
		})
	})
}

// visibleTo changes who may see and run the service.
func (w *world) visibleTo(visibility string) {
	w.t.Helper()
	s, _, err := w.Federations.Service(w.t.Context(), admin, "grayifyr0", "")
	if err != nil {
		w.t.Fatal(err)
	}
	s.Visibility = visibility
	if _, err := w.Federations.ChangeService(w.t.Context(), admin, federations.ChangeRequest{Service: s, Wait: time.Minute}); err != nil {
		w.t.Fatal(err)
	}
}

// What is too large is not kept with a job that has failed, and the refusal says so.
func TestTheLargeEventOfAFailedJobIsNotKept(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		j := w.submit(func(r *jobs.Request) { r.Event = []byte(strings.Repeat("x", 17<<10)) })
		p, _ := w.at(j.ID)
		p.fails(j.ID, 1, record.JobPodFailed)
		w.is(j.ID, record.JobFailed)
		w.eventually(func() bool { return !strings.Contains(strings.Join(w.leaves(j.ID), " "), record.EventKey(j.ID)) })
		_, err := w.Jobs.Replay(t.Context(), admin, jobs.Order{Job: j.ID})
		refused(t, "a job without its event", err, fault.CodeFailedPrecondition, "send it again")
	})
}

// A job goes back by itself when its syncer says that it failed for its inputs, and not for
// ever.
func TestAJobThatFailedForItsInputsGoesBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		j := w.submit()
		for n := 1; n <= 5; n++ {
			now := w.becomes(j.ID, func(j *jobs.Job) bool { return j.State == record.JobAssigned && j.Attempt == n })
			w.clusters[now.Place.ClusterID].fails(j.ID, n, record.JobInputsUnreadable)
		}
		parked := w.is(j.ID, record.JobParked)
		if len(parked.Attempts) != 5 || parked.Attempts[4].Reason != record.JobInputsUnreadable || parked.Attempts[4].State != record.JobFailed {
			t.Errorf("%+v", parked)
		}
	})
}

// Nobody is left in the dark about a log that is not there.
func TestWhyThereIsNoLogIsTold(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		j := w.submit()
		p, at := w.at(j.ID)
		for _, state := range []record.JobState{record.JobClaimed, record.JobSubmitting, record.JobSubmitted} {
			p.says(j.ID, 1, state)
		}
		p.says(j.ID, 1, record.JobSubmitted, func(r *record.JobReport) {
			r.Reason, r.Message = record.JobPodWaits, "ImagePullBackOff: no such image"
		})
		w.becomes(j.ID, func(j *jobs.Job) bool { return j.Reason == record.JobPodWaits })
		_, err := w.Runs.JobLog(t.Context(), admin, runs.LogTarget{Service: "grayifyr0"}, at.Place.Name, false)
		if err == nil || !strings.Contains(err.Error(), "is submitted: PodWaits: ImagePullBackOff: no such image") {
			t.Errorf("it says %v", err)
		}
	})
}

// The event of a failed job goes with its federation: nobody can replay it then.
func TestTheEventOfAFailedJobGoesWithItsFederation(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t, func(c *controlplane.Config) { c.SweepInterval = time.Minute })
		j := w.submit()
		p, _ := w.at(j.ID)
		p.fails(j.ID, 1, record.JobPodFailed)
		w.is(j.ID, record.JobFailed)
		w.eventually(func() bool { return !strings.Contains(strings.Join(w.leaves(j.ID), " "), "/c/") })
		if len(w.keys(record.EventsPrefix)) != 1 {
			t.Fatalf("its event is not kept: %v", w.keys(record.EventsPrefix))
		}
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		w.eventually(func() bool { return len(w.keys(record.EventsPrefix)) == 0 })
		if now := w.is(j.ID, record.JobFailed); now.Attempt != 1 {
			t.Errorf("%+v", now)
		}
	})
}
