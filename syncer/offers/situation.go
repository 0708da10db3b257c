package offers

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// situation is everything that a decision about one Job is made from.
type situation struct {
	session.Standing
	now time.Time
	// offer is our last report; nil for none.
	offer *record.Offer
	// answered says that an answer stands, and answer is what it says in the present
	// epoch.
	answered bool
	answer   record.OfferWord
	// cancelled says that the job was cancelled: the Job is to end, whether it has started or not.
	cancelled bool
	// job is nil when there is none.
	job *kube.Job
	// fresh says that all of it was just read. Only then is anything done.
	fresh bool
	// barred says why Jobs of its service are not offered; empty when they are. another
	// says that one more offer is allowed.
	barred  string
	another bool
	// threshold is how long a Job may wait.
	threshold time.Duration
	// refused is what Kubernetes said to an attempt to hold the Job; empty when it
	// accepted.
	refused string
}

// step is what is done next about a Job.
type step int

const (
	// stepRest: nothing, before something changes.
	stepRest step = iota
	// stepLook: look again after a while.
	stepLook
	// stepRead: read all of it, and decide on that.
	stepRead
	// stepTell: report decision.state.
	stepTell
	// stepForget: remove our report.
	stepForget

	// The steps from here on change something in Kubernetes.

	// stepMark: write on the Job that it is going to be held. One that Kueue holds leaves
	// its queue with that.
	stepMark
	// stepHold: hold a pod.
	stepHold
	// stepSuspend: suspend the Job. One of a queue leaves it with that.
	stepSuspend
	// stepDeactivate, stepActivate: the Workload.
	stepDeactivate
	stepActivate
	// stepResume: end the suspension, and the offer with it.
	stepResume
	// stepRestoring: write on the Job that its Workload is going to be active.
	stepRestoring
	// stepUnmark: write on the Job that it is as it was found; it gets its queue back
	// with that.
	stepUnmark
	// stepDelete: delete the Job.
	stepDelete
)

func (s step) String() string {
	names := [...]string{"rest", "look", "read", "tell", "forget", "mark", "hold", "suspend", "deactivate", "activate", "resume", "restoring", "unmark", "delete"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("step(%d)", int(s))
}

// decision is what plan answers.
type decision struct {
	step    step
	after   time.Duration
	state   record.OfferState
	message string
	// held says that the report is of a Job that is held, and waits for an answer.
	held bool
	// pod is the one to hold.
	pod kube.JobPod
	// spoiled says that another client has changed the Job: it is not offered again.
	spoiled bool
}

// waits says whether the Job waits for longer than it should, and can be offered; if
// not, why, and after what time it may be so (0: not before something changes).
func (s situation) waits() (waits bool, why string, again time.Duration) {
	j := s.job
	switch {
	case s.barred != "":
		return false, s.barred, 0
	case s.refused != "":
		return false, s.refused, 0
	case j.Unusual != "":
		return false, j.Unusual, 0
	case j.Rescheduler:
		return false, "OSCAR's own rescheduler may take it", 0
	case !neverStarted(j):
		return false, "it may have started before", 0
	case s.fresh && len(j.Event) > oscar.MaxEventBytes:
		return false, fmt.Sprintf("its event has %d bytes; %d is the most", len(j.Event), oscar.MaxEventBytes), 0
	case s.fresh && !utf8.ValidString(j.Event):
		return false, "its event is not UTF-8", 0
	}
	since, why, ok := s.since()
	if !ok {
		return false, why, 0
	}
	left := since.Add(s.threshold).Sub(s.now)
	if m := j.Mark; m != nil && m.At != nil {
		// A clock that was ahead when it was written lengthens nothing.
		pause := offerPause << min(max(m.Times-1, 0), 10)
		left = max(left, min(m.At.Sub(s.now), 0)+min(pause, offerMaxPause))
	}
	if left > 0 {
		return false, "it has not waited for long", left
	}
	return true, why, 0
}

// since is when the Job began to wait for capacity; false when it does not.
func (s situation) since() (since time.Time, why string, ok bool) {
	j := s.job
	active := activePods(j)
	if j.Suspended {
		switch {
		case j.Queue == "":
			return since, "somebody suspended it", false
		case len(active) > 0:
			return since, "it is being suspended", false
		case s.fresh && (j.Workload == nil || !j.Workload.Active):
			return since, "its Workload is not active", false
		case s.fresh && j.Workload.Admitted:
			return since, "Kueue has admitted it", false
		}
		return j.Created, "Kueue has no room for it", true
	}
	switch {
	case len(active) != 1:
		return since, "it has no pod", false
	case active[0].Node != "":
		return since, "its pod has a node", false
	case active[0].Deleting || active[0].Held:
		return since, "its pod goes", false
	case s.fresh && j.Queue != "" && (j.Workload == nil || !j.Workload.Active):
		return since, "its Workload is not active", false
	}
	return active[0].Created, "no node has room for its pod", true
}

// neverStarted says whether the Job cannot have had a pod before those that it has. A
// Job is made with generation 1, and each suspension, and each end of one, adds one.
func neverStarted(j *kube.Job) bool {
	was := int64(1)
	if j.Mark != nil {
		was = j.Mark.Generation
	}
	if j.Queue != "" && !j.Suspended {
		was++ // Kueue has admitted it, once
	}
	return j.Generation == was
}

func activePods(j *kube.Job) []kube.JobPod {
	var active []kube.JobPod
	for _, p := range j.Pods {
		if !p.Ended {
			active = append(active, p)
		}
	}
	return active
}

// promised says that another cluster may have the Job: it is not given back without an
// answer that says so.
func (s situation) promised() bool {
	return s.offer.State == record.OfferFrozen || s.answer == record.OfferRelease
}

// left says whether we took the Job out of a queue of Kueue.
func left(j *kube.Job) bool { return j.Queue == "" && j.Mark.Queue != "" }
