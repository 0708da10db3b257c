package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

var stuckPod = kube.PodState{Reason: "ImagePullBackOff", Message: "no such image", Stuck: true}

// shows is a list of a moment ago, with a Job whose pod tells something.
func shows(status string, p kube.PodState) func(*situation) {
	return func(s *situation) {
		s.start = 10 * time.Minute
		s.memory.listed = &listed{started: s.now.Add(-time.Second), present: true, job: manager.Job{Status: status}, pod: p}
	}
}

func stuckFor(d time.Duration) func(*situation) {
	return func(s *situation) { s.memory.stuck = s.now.Add(-d) }
}

func reported(reason record.JobReason, pod *record.JobPod) func(*situation) {
	return func(s *situation) { s.report.Reason, s.report.Pod = reason, pod }
}

// A job whose pod cannot start is given back when, and only when, it is certain that it has
// not started and never will.
func TestAJobWhosePodCannotStartIsGivenBack(t *testing.T) {
	told := reported(record.JobPodWaits, &record.JobPod{Reason: "ImagePullBackOff", Message: "no such image"})
	given := reported(record.JobCannotStart, &record.JobPod{Reason: "ImagePullBackOff"})
	held := kube.PodState{Reason: "InvalidImageName", Stuck: true, Held: true}
	certain, late := held, held
	certain.CannotRun, late.Ran = true, true
	offered := stuckPod
	offered.Offered = true
	gone := func(s *situation) {
		s.start = 10 * time.Minute
		s.memory.listed = &listed{started: s.now.Add(-time.Second)}
	}
	for _, c := range []struct {
		name   string
		s      situation
		step   step
		state  record.JobState
		reason record.JobReason
	}{
		{"why it waits is news", jobWith(record.JobSubmitted, shows("Pending", stuckPod)), stepReport, record.JobSubmitted, record.JobPodWaits},
		{"and is told once", jobWith(record.JobSubmitted, told, shows("Pending", stuckPod), stuckFor(time.Minute)), stepRest, "", ""},
		{"also in Kubernetes' other word for it", jobWith(record.JobSubmitted, told, shows("Pending", kube.PodState{Reason: "ErrImagePull", Stuck: true}), stuckFor(time.Minute)), stepRest, "", ""},
		{"it waits too long", jobWith(record.JobSubmitted, told, shows("Pending", stuckPod), stuckFor(10*time.Minute)), stepHold, "", ""},
		{"it may wait for ever", jobWith(record.JobSubmitted, told, shows("Pending", stuckPod), stuckFor(time.Hour), func(s *situation) { s.start = -1 }), stepRest, "", ""},
		{"the cluster is paused", jobWith(record.JobSubmitted, told, shows("Pending", stuckPod), stuckFor(time.Hour), func(s *situation) { s.Stopped = true }), stepRest, "", ""},
		{"it is offered", jobWith(record.JobSubmitted, told, shows("Pending", offered), stuckFor(time.Hour)), stepRest, "", ""},
		{"it was held a moment ago", jobWith(record.JobSubmitted, told, shows("Pending", stuckPod), stuckFor(time.Hour), func(s *situation) { s.memory.holds, s.memory.lastHold = 1, s.now }), stepRest, "", ""},
		{"it could not be held", jobWith(record.JobSubmitted, told, shows("Pending", stuckPod), stuckFor(time.Hour), func(s *situation) { s.memory.holds, s.memory.lastHold = 1, s.now.Add(-s.retry) }), stepHold, "", ""},
		{"its node does not know yet", jobWith(record.JobSubmitted, told, shows("Pending", held), stuckFor(time.Hour)), stepRest, "", ""},
		{"its node knows", jobWith(record.JobSubmitted, told, shows("Pending", certain), stuckFor(time.Hour)), stepReport, record.JobSubmitted, record.JobCannotStart},
		{"that is reported", jobWith(record.JobSubmitted, given, shows("Pending", certain), stuckFor(time.Hour)), stepRemove, "", ""},
		{"its Job is gone", jobWith(record.JobSubmitted, given, gone), stepReport, record.JobRefused, record.JobCannotStart},
		{"it had just started", jobWith(record.JobSubmitted, told, shows("Pending", late), stuckFor(time.Hour)), stepRemove, "", ""},
		{"and its Job is gone", jobWith(record.JobSubmitted, told, gone, func(s *situation) { s.memory.missing = s.now.Add(-time.Minute) }), stepReport, record.JobVanished, ""},
		{"it starts after all", jobWith(record.JobSubmitted, told, shows("Running", kube.PodState{Ran: true})), stepReport, record.JobRunning, ""},
		{"it is killed", jobWith(record.JobRunning, shows("Failed", kube.PodState{Reason: "OOMKilled", ExitCode: 137, Ran: true})), stepReport, record.JobFailed, record.JobPodFailed},
	} {
		d := plan(c.s)
		if d.step != c.step || d.state != c.state || d.reason != c.reason {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
	d := plan(jobWith(record.JobRunning, shows("Failed", kube.PodState{Reason: "OOMKilled", ExitCode: 137, Ran: true})))
	if d.pod == nil || d.pod.ExitCode != 137 || !strings.Contains(d.message, "OOMKilled, exit code 137") {
		t.Errorf("a job that was killed for its memory: %+v", d)
	}
	if d := plan(jobWith(record.JobSubmitted, given, gone)); d.pod == nil || d.pod.Reason != "ImagePullBackOff" {
		t.Errorf("what is given back does not say why: %+v", d)
	}
}
