package jobs

import (
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// A Job whose pod cannot start is given back, so that another member, or the next attempt,
// has it. It must not start any more then, and must not have started:
//
//	stuck for --job-start-timeout ──► hold ──► its node knows ──► CannotStart ──► remove ──► not listed ──► refused
//	                                   │
//	                                   └─ it had just started ──► remove ──► not listed ──► vanished
//
// The pod is held by its images (kube.HeldImage), which no node can start. Its node may be
// starting it in that moment: so it is asked for a word of the node that it has seen the
// change, and has not started it before. Without that word it stays held.

// tellPod enters what the pod tells into a report, and says whether that alone is news.
func (s situation) tellPod(shown *listed, d *decision) (news bool) {
	p := shown.pod
	if d.state == record.JobSubmitted && s.report != nil && s.report.Reason == record.JobCannotStart || p.Held {
		d.pod = s.podTold() // what it tells now comes from us
		if s.report != nil {
			d.reason, d.message = s.report.Reason, s.report.Message
		}
		return false // nothing of the pod's own
	}
	reason := record.JobPodWaits
	switch {
	case d.state == record.JobFailed:
		reason = record.JobPodFailed
	case d.state != record.JobSubmitted:
		return false
	}
	if p.Reason == "" {
		return false
	}
	d.pod = &record.JobPod{Reason: p.Reason, Message: p.Message, ExitCode: p.ExitCode}
	d.reason, d.message = reason, podWords(d.pod)
	before := s.podTold()
	return before == nil || before.Reason != p.Reason && !(pullsImage(before.Reason) && pullsImage(p.Reason))
}

func (s situation) podTold() *record.JobPod {
	if s.report == nil {
		return nil
	}
	return s.report.Pod
}

// pullsImage says of reasons that alternate while an image cannot be pulled.
func pullsImage(reason string) bool { return reason == "ErrImagePull" || reason == "ImagePullBackOff" }

// podWords is a pod's state in one line.
func podWords(p *record.JobPod) string {
	text := p.Reason
	if p.ExitCode != 0 {
		text += fmt.Sprintf(", exit code %d", p.ExitCode)
	}
	if p.Message != "" {
		text += ": " + p.Message
	}
	return text
}

// cannotStart is the next step with a Job whose pod is stuck.
func (s situation) cannotStart(shown *listed) decision {
	m, p := s.memory, shown.pod
	switch {
	case s.start <= 0 || p.Offered:
		return decision{step: stepRest}
	case p.Held && p.Ran, p.CannotRun && s.report.Reason == record.JobCannotStart:
		return s.deleteBy(stepRemove, shown)
	case p.CannotRun:
		d := tell(record.JobSubmitted, record.JobCannotStart, "its pod could not start")
		if d.pod = s.podTold(); d.pod != nil {
			d.message += ": " + podWords(d.pod)
		}
		return d // it is removed when that is reported
	case p.Held:
		return decision{step: stepRest} // its node has the word
	case !p.Stuck || m.stuck.IsZero():
		return decision{step: stepRest}
	}
	due := m.stuck.Add(s.start)
	if m.holds > 0 {
		due = slices.MaxFunc([]time.Time{due, m.lastHold.Add(s.pauseAfter(m.holds))}, time.Time.Compare)
	}
	if wait := due.Sub(s.now); wait > 0 {
		return restFor(wait)
	}
	return decision{step: stepHold}
}
