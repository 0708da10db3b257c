package jobs

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

var planTime = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// jobWith is the situation of an attempt of the present session, posted where its
// service is ready.
func jobWith(state record.JobState, change ...func(*situation)) situation {
	s := situation{
		now: planTime, assignment: &record.Assignment{UID: "u", Name: "svc-j-1"},
		session: 7, sessionStart: planTime.Add(-time.Hour), replica: replicaReady,
		retry: time.Second, grace: 10 * time.Second, resend: 5 * time.Minute, late: 5 * time.Minute, pause: 2 * time.Second,
	}
	if state != "" {
		s.report = &record.JobReport{State: state, Session: 7, LastTransitionTime: record.At(planTime)}
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

// posted says that a POST ended some time ago.
func posted(o postOutcome, ago time.Duration) func(*situation) {
	return func(s *situation) {
		s.memory.posts, s.memory.firstPost, s.memory.lastPost = 1, s.now.Add(-ago), s.now.Add(-ago)
		s.memory.outcome, s.memory.doubt = o, o == postUnknown
	}
}

// listedAgo says what a list that was started some time ago shows; an empty status is absence.
func listedAgo(ago time.Duration, status string) func(*situation) {
	return func(s *situation) {
		s.memory.listed = &listed{started: s.now.Add(-ago), present: status != "", job: manager.Job{Status: status}}
	}
}

func otherSession(s *situation) { s.report.Session = 3 }
func seen(s *situation)         { s.memory.seen = true }
func cancelled(s *situation)    { s.assignment.Cancel = true }
func serviceGone(s *situation)  { s.replica = replicaGone }
func standsStill(s *situation)  { s.report.LastTransitionTime = record.At(s.now.Add(-s.resend)) }
func notInPlace(s *situation)   { s.replica = replicaWaits }
func formerEpoch(s *situation)  { s.Epoch = "second" }
func readmitted(s *situation)   { s.assignment.Posted = true }

func TestPlanJob(t *testing.T) {
	for _, c := range []struct {
		name  string
		s     situation
		step  step
		state record.JobState
	}{
		{"nothing yet", jobWith(""), stepClaim, record.JobClaimed},
		{"claimed", jobWith(record.JobClaimed), stepBegin, record.JobSubmitting},
		{"claimed by a former session", jobWith(record.JobClaimed, otherSession), stepBegin, record.JobSubmitting},
		{"unclaimed and the service gone", jobWith("", serviceGone), stepLook, ""},
		{"unclaimed, the service gone, and not listed", jobWith("", serviceGone, listedAgo(0, "")), stepReport, record.JobRefused},
		{"unclaimed, the service gone, and listed", jobWith("", serviceGone, listedAgo(0, "Pending")), stepReport, record.JobSubmitted},
		{"claimed and the service gone", jobWith(record.JobClaimed, serviceGone), stepReport, record.JobRefused},
		{"claimed, and the service not in place", jobWith(record.JobClaimed, notInPlace), stepRest, ""},
		{"claimed, and the service not in place for long", jobWith(record.JobClaimed, notInPlace, standsStill), stepReport, record.JobRefused},
		{"the same in a young session", jobWith(record.JobClaimed, notInPlace, standsStill, func(s *situation) { s.sessionStart = s.now }), stepRest, ""},
		{"claimed long ago, and its turn comes", jobWith(record.JobClaimed, standsStill), stepBegin, record.JobSubmitting},
		{"claimed and cancelled", jobWith(record.JobClaimed, cancelled), stepReport, record.JobCancelled},
		{"cancelled, and nothing reported", jobWith("", cancelled), stepLook, ""},
		{"cancelled, nothing reported, and listed", jobWith("", cancelled, listedAgo(0, "Running")), stepReport, record.JobRunning},
		{"cancelled, nothing reported, and not listed", jobWith("", cancelled, listedAgo(0, "")), stepReport, record.JobCancelled},
		{"posted, and its report forgotten", jobWith("", readmitted), stepLook, ""},
		{"posted, its report forgotten, and listed", jobWith("", readmitted, listedAgo(0, "Running")), stepReport, record.JobRunning},
		{"posted, its report forgotten, and not listed", jobWith("", readmitted, listedAgo(0, "")), stepReport, record.JobUncertain},
		{"posted, its report forgotten, not listed, and the service gone", jobWith("", readmitted, serviceGone, listedAgo(0, "")), stepReport, record.JobUncertain},
		{"posted, its report forgotten, not listed, and cancelled", jobWith("", readmitted, cancelled, listedAgo(0, "")), stepReport, record.JobCancelled},
		{"the same in a young session", jobWith("", readmitted, cancelled, func(s *situation) { s.sessionStart = s.now.Add(-time.Minute) }, listedAgo(0, "")), stepRest, ""},
		{"posted in a former epoch, its report forgotten, and not listed", jobWith("", readmitted, formerEpoch, listedAgo(0, "")), stepReport, record.JobUncertain},
		{"claimed, and its event lost", jobWith(record.JobClaimed, func(s *situation) { s.memory.unfit = &unfitError{record.JobEventLost, "x"} }), stepReport, record.JobRefused},
		{"paused before the claim", jobWith("", func(s *situation) { s.Stopped = true }), stepRest, ""},
		{"paused after the claim", jobWith(record.JobClaimed, func(s *situation) { s.Stopped = true }), stepReport, record.JobRefused},
		{"of a former epoch", jobWith("", formerEpoch), stepLook, ""},
		{"of a former epoch, and not listed", jobWith("", formerEpoch, listedAgo(0, "")), stepRest, ""},
		{"of a former epoch, and listed", jobWith("", formerEpoch, listedAgo(0, "Running")), stepReport, record.JobRunning},
		{"claimed in a former epoch, and not listed", jobWith(record.JobClaimed, formerEpoch, listedAgo(0, "")), stepReport, record.JobRefused},

		{"begun", jobWith(record.JobSubmitting), stepPost, ""},
		{"begun, and nothing could be sent for long", jobWith(record.JobSubmitting, standsStill), stepReport, record.JobRefused},
		{"begun, and the service not in place for long", jobWith(record.JobSubmitting, notInPlace, standsStill), stepReport, record.JobRefused},
		{"begun, and the service gone", jobWith(record.JobSubmitting, serviceGone), stepReport, record.JobRefused},
		{"taken", jobWith(record.JobSubmitting, posted(postTaken, 0)), stepReport, record.JobSubmitted},
		{"refused", jobWith(record.JobSubmitting, posted(postNo, 0)), stepReport, record.JobRefused},
		{"of another event", jobWith(record.JobSubmitting, posted(postOther, 0)), stepReport, record.JobRefused},
		{"failed", jobWith(record.JobSubmitting, posted(postFailed, time.Second)), stepRest, ""},
		{"failed a while ago", jobWith(record.JobSubmitting, posted(postFailed, time.Minute)), stepLook, ""},
		{"failed, and listed too soon", jobWith(record.JobSubmitting, posted(postFailed, time.Minute), listedAgo(55*time.Second, "")), stepLook, ""},
		{"failed, and not listed", jobWith(record.JobSubmitting, posted(postFailed, time.Minute), listedAgo(time.Second, "")), stepReport, record.JobRefused},
		{"failed, and yet listed", jobWith(record.JobSubmitting, posted(postFailed, time.Second), listedAgo(0, "Pending")), stepReport, record.JobSubmitted},
		{"not sent", jobWith(record.JobSubmitting, posted(postUnsent, time.Minute)), stepPost, ""},
		{"not sent for long", jobWith(record.JobSubmitting, posted(postUnsent, time.Hour)), stepReport, record.JobRefused},
		{"unanswered", jobWith(record.JobSubmitting, posted(postUnknown, time.Second)), stepLook, ""},
		{"unanswered, listed before", jobWith(record.JobSubmitting, posted(postUnknown, time.Second), listedAgo(time.Minute, "")), stepLook, ""},
		{"unanswered, and not listed", jobWith(record.JobSubmitting, posted(postUnknown, time.Minute), listedAgo(time.Second, "")), stepPost, ""},
		{"unanswered, and listed", jobWith(record.JobSubmitting, posted(postUnknown, time.Minute), listedAgo(time.Second, "Running")), stepReport, record.JobRunning},
		{"unanswered, listed meanwhile, and deleted", jobWith(record.JobSubmitting, posted(postUnknown, time.Minute), seen, listedAgo(time.Second, "")), stepReport, record.JobSubmitted},
		{"failed, listed meanwhile, and deleted", jobWith(record.JobSubmitting, posted(postFailed, time.Minute), seen, listedAgo(time.Second, "")), stepReport, record.JobSubmitted},
		{"unanswered for long", jobWith(record.JobSubmitting, posted(postUnknown, time.Hour), listedAgo(time.Second, "")), stepReport, record.JobUncertain},
		{"unanswered, and cancelled", jobWith(record.JobSubmitting, cancelled, posted(postUnknown, time.Minute), listedAgo(time.Second, "")), stepReport, record.JobUncertain},
		{"refused after one without an answer", jobWith(record.JobSubmitting, posted(postUnknown, time.Minute), func(s *situation) { s.memory.outcome = postNo }), stepLook, ""},
		{"begun by a former session", jobWith(record.JobSubmitting, otherSession), stepLook, ""},
		{"begun by a former session of this process, and not sent", jobWith(record.JobSubmitting, otherSession, func(s *situation) { s.ours = true }), stepPost, ""},
		{"begun by a former session, and not listed", jobWith(record.JobSubmitting, otherSession, listedAgo(0, "")), stepReport, record.JobUncertain},
		{"begun by a former session, and listed", jobWith(record.JobSubmitting, otherSession, listedAgo(0, "Failed")), stepReport, record.JobFailed},

		{"uncertain", jobWith(record.JobUncertain, otherSession), stepLook, ""},
		{"uncertain for long, and not listed", jobWith(record.JobUncertain, otherSession, listedAgo(0, "")), stepReport, record.JobVanished},
		{"uncertain, and listed", jobWith(record.JobUncertain, otherSession, listedAgo(0, "Suspended")), stepReport, record.JobSubmitted},
		{"uncertain in a young session", jobWith(record.JobUncertain, otherSession, func(s *situation) { s.sessionStart = s.now.Add(-time.Minute) }, listedAgo(0, "")), stepRest, ""},
		{"uncertain, of this session", jobWith(record.JobUncertain, posted(postUnknown, time.Minute), listedAgo(0, "")), stepRest, ""},
		{"uncertain, and a person knows", jobWith(record.JobUncertain, otherSession, func(s *situation) { s.assignment.Resolved = record.JobSubmitted }), stepReport, record.JobSubmitted},

		{"submitted", jobWith(record.JobSubmitted), stepRest, ""},
		{"submitted, and as before", jobWith(record.JobSubmitted, listedAgo(0, "Pending")), stepRest, ""},
		{"it runs", jobWith(record.JobSubmitted, listedAgo(0, "Running")), stepReport, record.JobRunning},
		{"its node does not answer", jobWith(record.JobRunning, listedAgo(0, "Unknown")), stepRest, ""},
		{"it ran, and its pod is gone", jobWith(record.JobRunning, listedAgo(0, "Suspended")), stepRest, ""},
		{"it ran, and its pod waits again", jobWith(record.JobRunning, listedAgo(0, "Pending")), stepRest, ""},
		{"it has ended", jobWith(record.JobRunning, listedAgo(0, "Succeeded")), stepReport, record.JobSucceeded},
		{"made a moment ago, and not listed", jobWith(record.JobSubmitted, posted(postTaken, time.Second), listedAgo(0, "")), stepRest, ""},
		{"not listed once", jobWith(record.JobRunning, listedAgo(0, ""), func(s *situation) { s.memory.missing = s.now }), stepRest, ""},
		{"not listed twice", jobWith(record.JobRunning, listedAgo(0, ""), func(s *situation) { s.memory.missing = s.now.Add(-time.Minute) }), stepReport, record.JobVanished},
		{"to be cancelled", jobWith(record.JobRunning, cancelled, listedAgo(0, "Running")), stepDelete, ""},
		{"to be cancelled, and ended", jobWith(record.JobRunning, cancelled, listedAgo(0, "Succeeded")), stepReport, record.JobSucceeded},
		{"deleted, and listed before", jobWith(record.JobRunning, cancelled, listedAgo(time.Minute, "Running"), func(s *situation) { s.memory.deletes, s.memory.lastDelete = 1, s.now }), stepLook, ""},
		{"deleted, and not listed", jobWith(record.JobRunning, cancelled, listedAgo(0, ""), func(s *situation) { s.memory.deletes, s.memory.lastDelete = 1, s.now.Add(-time.Minute) }), stepReport, record.JobCancelled},
		{"deleted with its service", jobWith(record.JobRunning, listedAgo(0, ""), func(s *situation) { s.removalCancels = true }), stepReport, record.JobCancelled},

		{"an end stands", jobWith(record.JobSucceeded, listedAgo(0, "")), stepRest, ""},
		{"a refusal stands", jobWith(record.JobRefused), stepRest, ""},
		{"the store is in doubt", jobWith(record.JobClaimed, func(s *situation) { s.Restored = true }), stepRest, ""},
		{"nobody asks any more", jobWith(record.JobClaimed, func(s *situation) { s.assignment = nil }), stepRest, ""},
	} {
		if d := plan(c.s); d.step != c.step || d.state != c.state {
			t.Errorf("%s: step %d, state %q (%s); want %d, %q", c.name, d.step, d.state, d.message, c.step, c.state)
		}
	}
}

// TestPlanJobNeverPostsInDoubt draws situations at random.
func TestPlanJobNeverPostsInDoubt(t *testing.T) {
	states := []record.JobState{"", record.JobClaimed, record.JobSubmitting, record.JobSubmitted, record.JobRunning,
		record.JobRefused, record.JobUncertain, record.JobSucceeded, record.JobVanished, record.JobCancelled}
	statuses := []string{"", "Pending", "Running", "Succeeded", "Unknown"}
	rapid.Check(t, func(t *rapid.T) {
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		ago := func(name string) time.Time {
			return planTime.Add(-time.Duration(rapid.IntRange(0, 1000).Draw(t, name)) * time.Second)
		}
		state := rapid.SampledFrom(states).Draw(t, "state")
		s := jobWith(state)
		s.Stopped, s.Restored, s.removalCancels, s.assignment.Cancel = flag("stopped"), flag("restored"), flag("removal"), flag("cancel")
		s.replica = replicaState(rapid.IntRange(0, 2).Draw(t, "place"))
		s.sessionStart = ago("term")
		if flag("former epoch") {
			s.Epoch = "second"
		}
		if s.report != nil && flag("former session") {
			s.report.Session = 3
			s.ours = flag("ours")
		}
		if m := &s.memory; flag("posted") {
			m.posts, m.lastPost = rapid.IntRange(1, 5).Draw(t, "posts"), ago("last")
			m.firstPost = m.lastPost.Add(-time.Duration(rapid.IntRange(0, 500).Draw(t, "first")) * time.Second)
			m.outcome = postOutcome(rapid.IntRange(1, 6).Draw(t, "outcome"))
			m.doubt, m.seen = m.outcome == postUnknown || flag("doubt"), flag("seen")
		}
		if flag("listed") {
			listedAgo(planTime.Sub(ago("list")), rapid.SampledFrom(statuses).Draw(t, "status"))(&s)
		}
		if flag("missed") {
			s.memory.missing = ago("missing")
		}
		d := plan(s)
		calm := s.replica == replicaReady && !s.Stopped && !s.Restored && !s.assignment.Cancel
		m, shown := s.memory, s.memory.listed
		switch {
		case (d.step == stepBegin || d.step == stepClaim) && (!calm || s.assignment.Epoch != s.Epoch || state.Posted() || state == record.JobRefused):
			t.Fatalf("begun in %+v", s)
		case d.step == stepPost && (!calm || state != record.JobSubmitting || !s.mine()):
			t.Fatalf("posted in %+v", s)
		case d.step == stepPost && m.posts > 0 && m.doubt && (shown == nil || shown.present || shown.started.Before(m.lastPost) || planTime.Sub(m.firstPost) >= s.resend):
			t.Fatalf("posted again in %+v", s)
		case d.step == stepPost && m.seen && m.doubt:
			t.Fatalf("posted again although it was listed in %+v", s)
		case d.step == stepPost && m.posts > 0 && (m.outcome == postTaken || m.outcome == postOther || !m.doubt && m.outcome != postUnsent):
			t.Fatalf("posted again after an answer in %+v", s)
		case d.step == stepReport && d.state == record.JobRefused && state.Posted() && (!s.mine() || m.doubt && m.outcome != postOther):
			t.Fatalf("given back in doubt in %+v", s)
		case d.step == stepReport && d.state == record.JobVanished && (shown == nil || shown.present):
			t.Fatalf("vanished without a list that lacks it in %+v", s)
		case d.step != stepRest && (state.Ended() || state == record.JobRefused):
			t.Fatalf("something after an end in %+v", s)
		case d.step == stepReport && state == record.JobRunning && d.state == record.JobSubmitted:
			t.Fatalf("not started any more in %+v", s)
		case d.step == stepDelete && !s.assignment.Cancel:
			t.Fatalf("deleted without an order in %+v", s)
		}
	})
}
