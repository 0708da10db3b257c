package controlplane_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestAJobGoesItsWay from acceptance to its end, and what it costs is counted.
func TestAJobGoesItsWay(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		began := w.revision()
		j := w.submit()
		p, assigned := w.at(j.ID)
		if got := p.event(j.ID, 1); got != secretEvent {
			t.Errorf("the cluster reads %q", got)
		}
		a := p.standing()
		if len(a) != 1 || a[0].Name != record.JobName(assigned.Place.ServiceName, j.ID, 1) || a[0].UID != assigned.Place.UID {
			t.Errorf("%+v for %+v", a, assigned.Place)
		}
		for _, state := range whole() {
			p.says(j.ID, 1, state)
		}
		end := w.is(j.ID, record.JobSucceeded)
		w.eventually(func() bool { return len(w.leaves(j.ID)) == 2 })
		if end.StartedAt == nil || end.EndedAt == nil || end.Attempt != 1 {
			t.Errorf("%+v", end)
		}
		if left := strings.Join(w.leaves(j.ID), " "); left != record.DecisionKey(j.ID, 1)+" "+record.JobKey(j.ID) {
			t.Errorf("left: %s", left)
		}
		if len(w.keys(record.ReservedPrefix)) > 0 {
			t.Errorf("still promised: %v", w.keys(record.ReservedPrefix))
		}
		// Accepted, assigned, ended, and perhaps seen running; the syncer's five.
		if cost := w.revision() - began; cost < 8 || cost > 9 {
			t.Errorf("it cost %d revisions", cost)
		}
		_, why, err := w.Jobs.Explain(t.Context(), admin, j.ID)
		if err != nil || len(why) != 1 || why[0].Decision.Chosen == "" || why[0].Attempt != 1 {
			t.Errorf("%+v %v", why, err)
		}
	})
}

// TestIdleJobsCostNothing while nobody can take them.
func TestIdleJobsCostNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		for _, p := range w.clusters {
			p.has(100)
		}
		j := w.submit()
		stuck := w.becomes(j.ID, func(j *jobs.Job) bool { return j.Reason == record.JobNoCandidate })
		began := w.revision()
		w.clusters["b"].has(200) // a reason to look again
		w.clusters["b"].has(4000)
		_, assigned := w.at(j.ID)
		if stuck.State != record.JobQueued || assigned.Place.ClusterID != "b" {
			t.Errorf("%+v then %+v", stuck, assigned)
		}
		if cost := w.revision() - began; cost != 3 {
			t.Errorf("it cost %d revisions", cost)
		}
	})
}

// TestManyJobsOverTwoInstances: each is done once, whoever takes its steps, and nothing
// stays promised.
func TestManyJobsOverTwoInstances(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.second()
		for _, p := range w.clusters {
			p.runs(whole()...)
		}
		const n = 200
		began := w.revision()
		ids := make([]string, n)
		var g errgroup.Group
		g.SetLimit(50)
		for i := range ids {
			g.Go(func() error {
				j, err := w.trySubmit()
				if err == nil {
					ids[i] = j.ID
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		places := map[string]int{}
		for _, id := range ids {
			places[w.is(id, record.JobSucceeded).Place.ClusterID]++
		}
		w.eventually(func() bool { return len(w.keys(record.JobsPrefix)) == n && len(w.keys(record.EventsPrefix)) == 0 })
		if len(places) != 3 {
			t.Errorf("by random they went to %v", places)
		}
		w.eventually(func() bool { return len(w.keys(record.ReservedPrefix)) == 0 })
		t.Logf("%.2f revisions a job, of which the fake syncers' are %d", float64(w.revision()-began)/n, len(whole()))
	})
}

// TestARefusedJobGoesElsewhereAndIsParked with every attempt's cause, and replayed.
func TestARefusedJobGoesElsewhereAndIsParked(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		j := w.submit()
		var places []string
		for n := 1; n <= 5; n++ {
			now := w.becomes(j.ID, func(j *jobs.Job) bool { return j.State == record.JobAssigned && j.Attempt == n })
			places = append(places, now.Place.ClusterID)
			p := w.clusters[now.Place.ClusterID]
			p.says(j.ID, n, record.JobClaimed)
			p.says(j.ID, n, record.JobSubmitting)
			p.says(j.ID, n, record.JobRefused, refusal(record.JobOscarRefused, 500, "no room for it"))
		}
		parked := w.is(j.ID, record.JobParked)
		if first := slices.Sorted(slices.Values(places[:3])); !slices.Equal(first, []string{"a", "b", "c"}) {
			t.Errorf("it went to %v", places)
		}
		if len(parked.Attempts) != 5 || parked.Attempts[0].Status != 500 || parked.Attempts[4].Message != "no room for it" || parked.Reason != record.JobTooManyAttempts {
			t.Errorf("%+v", parked)
		}
		if left := strings.Join(w.leaves(j.ID), " "); !strings.Contains(left, record.EventKey(j.ID)) || strings.Contains(left, "/c/") {
			t.Errorf("left: %s", left)
		}
		if _, err := w.Jobs.Replay(t.Context(), admin, jobs.Order{Job: j.ID}); err != nil {
			t.Fatal(err)
		}
		p, again := w.at(j.ID)
		if again.Attempt != 6 || p.event(j.ID, 6) != secretEvent {
			t.Errorf("%+v", again)
		}
		words, _ := w.audited(request.AuditQuery{Limit: 1})
		if !strings.Contains(strings.Join(words, " "), "replay_job") {
			t.Errorf("%v", words)
		}
	})
}

// TestAJobIsNotParkedWhileAnotherMemberIsOnlyFull: one that refuses everything and has room would else drain the queue. A
// member that can never take it is not waited for.
func TestAJobIsNotParkedWhileAnotherMemberIsOnlyFull(t *testing.T) {
	for name, others := range map[string]int64{"full": 4000, "too small": 0} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newJobWorld(t)
				a, b := w.clusters["a"], w.clusters["b"]
				w.full("c")
				b.hasBeside(others, 1)
				a.acts(func(job string, n int) []record.JobState {
					return []record.JobState{record.JobClaimed, record.JobSubmitting, record.JobRefused}
				})
				j := w.submit()
				if others == 0 {
					if now := w.is(j.ID, record.JobParked); now.Tries != 5 {
						t.Errorf("%+v", now)
					}
					return
				}
				waits := w.becomes(j.ID, func(j *jobs.Job) bool {
					return j.State.Ended() || j.State == record.JobQueued && j.Tries == 4 && j.Reason == record.JobNoCandidate
				})
				if waits.State != record.JobQueued {
					t.Fatalf("%+v", waits)
				}
				b.has(4000)
				if p, now := w.at(j.ID); p != b || now.Attempt != 5 {
					t.Errorf("%+v", now)
				}
			})
		})
	}
}

// TestALostClusterGivesBackWhatItHasNotBegun and nothing else.
func TestALostClusterGivesBackWhatItHasNotBegun(t *testing.T) {
	for _, state := range []record.JobState{"", record.JobClaimed, record.JobSubmitting, record.JobRunning, record.JobUncertain} {
		t.Run("after "+string(state), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newJobWorld(t)
				j := w.submit()
				p, _ := w.at(j.ID)
				for _, s := range append(whole()[:4:4], record.JobUncertain) {
					if state == "" || s == record.JobUncertain && state != s || state == record.JobUncertain && (s == record.JobSubmitted || s == record.JobRunning) {
						continue
					}
					p.says(j.ID, 1, s)
					if s == state {
						break
					}
				}
				p.disconnect()
				if state == "" || state == record.JobClaimed {
					moved := w.becomes(j.ID, func(j *jobs.Job) bool { return j.State == record.JobAssigned && j.Attempt == 2 })
					if moved.Place.ClusterID == p.cluster || moved.Attempts[0].Reason != record.JobClusterLost || moved.Tries != 0 {
						t.Errorf("%+v", moved)
					}
					return
				}
				stays := w.becomes(j.ID, func(j *jobs.Job) bool { return j.Unreachable })
				if stays.State != state || stays.Attempt != 1 {
					t.Errorf("%+v", stays)
				}
				// A later job is decided on after this one would have been.
				later := w.submit()
				w.at(later.ID)
				if now, err := w.Jobs.Get(t.Context(), admin, j.ID); err != nil || now.Attempt != 1 {
					t.Errorf("%+v %v", now, err)
				}
				gone, err := w.Jobs.Resolve(t.Context(), admin, jobs.Order{Job: j.ID}, record.JobVanished)
				if err != nil || gone.State != record.JobVanished || gone.Reason != record.JobResolved {
					t.Errorf("%+v %v", gone, err)
				}
			})
		})
	}
}

// TestACordonedClusterGivesBackWhatIsNotClaimed.
func TestACordonedClusterGivesBackWhatIsNotClaimed(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		j := w.submit()
		p, _ := w.at(j.ID)
		other := w.submit()
		q, _ := w.at(other.ID)
		q.says(other.ID, 1, record.JobClaimed)
		for _, id := range []string{p.cluster, q.cluster} {
			if _, err := w.Clusters.SetState(t.Context(), admin, id, "cordoned"); err != nil {
				t.Fatal(err)
			}
		}
		if p != q {
			moved := w.becomes(j.ID, func(j *jobs.Job) bool { return j.State == record.JobAssigned && j.Attempt >= 2 })
			if moved.Place.ClusterID == p.cluster { // it may have been at q before that was cordoned
				t.Errorf("%+v", moved)
			}
		}
		if now, err := w.Jobs.Get(t.Context(), admin, other.ID); err != nil || now.State != record.JobClaimed {
			t.Errorf("%+v %v", now, err)
		}
	})
}

// TestAJobIsNotLeftWhereItsServiceIsBroken: its syncer claims nothing for a service that OSCAR cannot read, and that may
// last until a person looks after it.
func TestAJobIsNotLeftWhereItsServiceIsBroken(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		j := w.submit()
		p, at := w.at(j.ID)
		p.does(func(string, *record.Desired) *record.Observed {
			return &record.Observed{Phase: record.PhaseWedged, Reason: record.ReasonCreateFailed}
		})
		now := w.becomes(j.ID, func(j *jobs.Job) bool { return j.State == record.JobAssigned && j.Place.ClusterID != p.cluster })
		if last := now.Attempts[len(now.Attempts)-1]; last.ClusterID != at.Place.ClusterID || last.Reason != record.JobWithdrawn || now.Tries != 0 {
			t.Errorf("%+v", now)
		}
	})
}

// TestAServiceThatWasNeverSeenInPlaceGetsNoJobs: a syncer claims none for it. So it is told after a readmission, where
// drift is only reported.
func TestAServiceThatWasNeverSeenInPlaceGetsNoJobs(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.full("a", "b")
		w.clusters["c"].does(func(string, *record.Desired) *record.Observed {
			return &record.Observed{Phase: record.PhaseDrifted, Reason: record.ReasonDrifted}
		})
		w.cannot(w.submit().ID, "c", delegation.WhyNotReady, "")
	})
}

// TestCancel at each stage.
func TestCancel(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		cancel := func(id string) *jobs.Job {
			j, err := w.Jobs.Cancel(t.Context(), admin, jobs.Order{Job: id})
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		unclaimed := w.submit()
		w.at(unclaimed.ID)
		if j := cancel(unclaimed.ID); j.State != record.JobCancelled || j.Cancel != admin.Subject || len(w.leaves(j.ID)) != 2 {
			t.Errorf("%+v %v", j, w.leaves(j.ID))
		}
		cancel(unclaimed.ID) // again
		running := w.submit()
		p, _ := w.at(running.ID)
		for _, state := range whole()[:4] {
			p.says(running.ID, 1, state)
		}
		w.is(running.ID, record.JobRunning)
		if j := cancel(running.ID); j.State != record.JobRunning {
			t.Errorf("%+v", j)
		}
		if a := p.standing(); len(a) != 1 || !a[0].Cancel {
			t.Errorf("%+v", a)
		}
		p.says(running.ID, 1, record.JobCancelled)
		w.is(running.ID, record.JobCancelled)
		refused := w.submit()
		p, _ = w.at(refused.ID)
		p.says(refused.ID, 1, record.JobClaimed)
		cancel(refused.ID)
		p.says(refused.ID, 1, record.JobRefused, refusal(record.JobOscarRefused, 500, "no"))
		w.is(refused.ID, record.JobCancelled)
		for _, p := range w.clusters {
			p.has(1)
		}
		queued := w.submit()
		if j := cancel(queued.ID); j.State != record.JobCancelled {
			t.Errorf("%+v", j)
		}
		w.eventually(func() bool { return len(w.keys(record.EventsPrefix))+len(w.keys(record.ReservedPrefix)) == 0 })
		if _, err := w.Jobs.Replay(t.Context(), admin, jobs.Order{Job: queued.ID}); codeOf(t, err) != fault.CodeFailedPrecondition {
			t.Error(err)
		}
	})
}

// TestADeletedFederationEndsItsJobs: what is not begun is cancelled, what runs ends by
// itself, also when the federation is gone.
func TestADeletedFederationEndsItsJobs(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		running := w.submit()
		p, _ := w.at(running.ID)
		for _, state := range whole()[:4] {
			p.says(running.ID, 1, state)
		}
		assigned := w.submit()
		w.at(assigned.ID)
		for _, p := range w.clusters {
			p.has(1)
		}
		queued := w.submit()
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{assigned.ID, queued.ID} {
			if j := w.is(id, record.JobCancelled); j.Reason != record.JobFederationGone {
				t.Errorf("%+v", j)
			}
		}
		p.says(running.ID, 1, record.JobFailed)
		w.is(running.ID, record.JobFailed)
		if _, err := w.trySubmit(); codeOf(t, err) != fault.CodeNotFound {
			t.Error(err)
		}
		w.eventually(func() bool { return len(w.keys(record.EventsPrefix))+len(w.keys(record.ReservedPrefix)) == 0 })
	})
}

// TestWhatIsNoJobIsRefused before it is accepted, and says why.
func TestWhatIsNoJobIsRefused(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t, func(c *controlplane.Config) { c.JobsPerFederation = 3 })
		for _, p := range w.clusters {
			p.has(1)
		}
		for name, c := range map[string]struct {
			req  jobs.Request
			code fault.Code
		}{
			"too large":  {jobs.Request{Service: "grayifyr0", Event: make([]byte, oscar.MaxEventBytes+1)}, fault.CodeTooLarge},
			"NUL":        {jobs.Request{Service: "grayifyr0", Event: []byte("a\x00b")}, fault.CodeInvalid},
			"no UTF-8":   {jobs.Request{Service: "grayifyr0", Event: []byte("\xff")}, fault.CodeInvalid},
			"no service": {jobs.Request{Service: "nothing"}, fault.CodeNotFound},
		} {
			if _, err := w.Jobs.Submit(t.Context(), admin, c.req); codeOf(t, err) != c.code {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := len(w.keys(record.JobsPrefix)); n > 0 {
			t.Errorf("%d jobs", n)
		}
		service, _, err := w.Federations.Service(t.Context(), admin, "grayifyr0", "")
		if err != nil {
			t.Fatal(err)
		}
		itself, err := w.Tokens.ServiceCaller(t.Context(), "grayifyr0", service.Token)
		if err != nil {
			t.Fatal(err)
		}
		byToken := func(service, event string) (*jobs.Job, error) {
			return w.Jobs.Submit(t.Context(), itself, jobs.Request{Service: service, Event: []byte(event), IdempotencyKey: "once"})
		}
		if _, err := byToken("grayifyr1", "an event"); codeOf(t, err) != fault.CodeUnauthenticated {
			t.Errorf("for another service: %v", err)
		}
		first, err := byToken("grayifyr0", "an event")
		if err != nil {
			t.Fatal(err)
		}
		again, err := byToken("grayifyr0", "an event")
		if err != nil {
			t.Fatal(err)
		}
		if first.ID != again.ID || !again.Replayed || first.By != "" {
			t.Errorf("%+v %+v", first, again)
		}
		keyed := func(r *jobs.Request) { r.IdempotencyKey = "once" }
		_, err = byToken("grayifyr0", "another")
		if codeOf(t, err) != fault.CodeFailedPrecondition {
			t.Error(err)
		}
		w.submit(keyed) // another sender's key
		w.submit()
		if _, err := w.trySubmit(); codeOf(t, err) != fault.CodeExhausted {
			t.Error(err)
		}
		list, more, err := w.Jobs.List(t.Context(), admin, jobs.Query{Limit: 2})
		if err != nil || len(list) != 2 || !more || list[0].ID < list[1].ID {
			t.Errorf("%+v %v %v", list, more, err)
		}
		rest, more, err := w.Jobs.List(t.Context(), admin, jobs.Query{Before: list[1].Position})
		if err != nil || len(rest) != 1 || more || rest[0].ID != first.ID {
			t.Errorf("%+v %v %v", rest, more, err)
		}
	})
}

// TestOneSenderDoesNotKeepOthersFromAService: of what a federation may have in flight he gets half of what is free.
func TestOneSenderDoesNotKeepOthersFromAService(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t, func(c *controlplane.Config) { c.JobsPerFederation = 4 })
		w.visibleTo("public")
		for _, c := range []struct {
			caller identity.Caller
			want   int
		}{{identity.Caller{Subject: "bob"}, 2}, {identity.Caller{Subject: "carol"}, 1}, {admin, 1}} {
			n, err := -1, error(nil)
			for ; err == nil; n++ {
				_, err = w.Jobs.Submit(t.Context(), c.caller, jobs.Request{Service: "grayifyr0", Event: []byte(secretEvent)})
			}
			if codeOf(t, err) != fault.CodeExhausted || n != c.want {
				t.Errorf("%s has %d jobs, and then: %v; want %d", c.caller.Subject, n, err, c.want)
			}
		}
	})
}

// TestJobsAreFoundByTheTimeOfTheirAcceptance, queued or not, by all filters, and counted so.
func TestJobsAreFoundByTheTimeOfTheirAcceptance(t *testing.T) {
	// Ids never go back, whatever the clock does: here they run a minute ahead of it.
	synctest.Test(t, func(*testing.T) {
		<-time.After(time.Minute)
		record.NewUID()
	})
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		var ids []string
		var at []time.Time
		for i := range 6 {
			if i == 3 { // the later ones wait
				for _, p := range w.clusters {
					p.has(0)
				}
			}
			j := w.submit()
			if i < 3 {
				w.at(j.ID)
			}
			ids, at = append(ids, j.ID), append(at, j.AcceptedAt)
			<-time.After([]time.Duration{time.Millisecond, time.Second, 2 * time.Minute}[i%3])
		}
		for _, tt := range []struct {
			q    jobs.Query
			want []int
		}{
			{jobs.Query{}, []int{5, 4, 3, 2, 1, 0}},
			{jobs.Query{Since: at[1]}, []int{5, 4, 3, 2, 1}},
			{jobs.Query{Since: at[1].Add(time.Nanosecond)}, []int{5, 4, 3, 2}},
			{jobs.Query{Until: at[1]}, []int{0}},
			{jobs.Query{Since: at[1], Until: at[4]}, []int{3, 2, 1}},
			{jobs.Query{Since: at[1], Until: at[4], Service: "grayifyr0"}, []int{3, 2, 1}},
			{jobs.Query{Since: at[1], Until: at[4], ClusterID: "a"}, []int{3, 2, 1}},
			{jobs.Query{Since: at[1], Until: at[4], States: []jobs.State{record.JobQueued}}, []int{3}},
			{jobs.Query{Since: at[0].Add(-time.Hour), Until: at[0]}, nil},
			{jobs.Query{Since: at[5].Add(time.Hour)}, nil},
		} {
			var want, got []string
			for _, i := range tt.want {
				want = append(want, ids[i])
			}
			for page := tt.q; ; {
				page.Limit = 2
				list, more, err := w.Jobs.List(t.Context(), admin, page)
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range list {
					got = append(got, j.ID)
				}
				if !more {
					break
				}
				page.Before = list[len(list)-1].Position
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v: %q, want %q", tt.q, got, want)
			}
			if tt.q.States != nil {
				continue
			}
			counts, err := w.Jobs.Count(t.Context(), admin, tt.q)
			if err != nil {
				t.Fatal(err)
			}
			sum := 0
			for _, n := range counts {
				sum += n
			}
			if sum != len(want) {
				t.Errorf("%+v: counted %v, want %d", tt.q, counts, len(want))
			}
		}
	})
}
