package offers

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
)

// A Job that waits for room is offered to the federation, held when the control plane
// says that somebody may take it, and then deleted or given back as it answers:
//
//	           waiting --freeze--> mark, hold --> frozen --release--> delete --> released
//	              |                    |            |
//	              |                    +--restore---+---restore--> give back --> restored
//	              |                    |            |
//	              +--------------------+------------+
//	                                   v
//	      it starts, or goes: no offer, or the offer ends as started
//
// What holds a Job must not be lost to a pod that starts at just that moment, and must
// not kill one that has started. So the pod is held, not the Job: a pod that has no node
// gets images that no node can start, in a write that fails when it was given a node
// first. Only then is the Job suspended, and its pod, which can start nothing any more,
// goes. A Job that Kueue holds has no pod; it is taken out of its queue, in a write that
// fails when Kueue has resumed it first, and its Workload is deactivated.
//
// All that was done to a Job is written on the Job (kube.JobMark), before it is done.

// situation is everything that a decision about one Job is made from.
type situation struct {
	now time.Time
	// offer is our last report; nil for none.
	offer *record.Offer
	// answered says that an answer stands, and answer is what it says in the present
	// epoch.
	answered bool
	answer   record.OfferWord
	// job is nil when there is none.
	job *kube.Job
	// fresh says that all of it was just read. Only then is anything done.
	fresh bool
	// barred says why Jobs of its service are not offered; empty when they are. room
	// says that there may be another offer.
	barred string
	space  bool
	// threshold is how long a Job may wait.
	threshold time.Duration
	// refused is what Kubernetes said to an attempt to hold the Job; empty when it
	// accepted.
	refused string
	// stopped says that nothing is to be done on this cluster.
	stopped bool
	epoch   string
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
	return fmt.Sprintf("offerStep(%d)", int(s))
}

// changes says whether the step changes something in Kubernetes.
func (s step) changes() bool { return s >= stepMark }

// decision is what plan answers.
type decision struct {
	step    step
	after   time.Duration
	state   record.OfferState
	message string
	// pod is the one to hold.
	pod kube.JobPod
	// spoiled says that somebody else has changed the Job: it is not offered again.
	spoiled bool
}

const (
	// offerPoll is the pause before a look at what a controller is to do.
	offerPoll = 2 * time.Second
	// A Job that nobody took is not offered again before offerPause, twice as long each
	// time, and offerMaxPause at most.
	offerPause    = 5 * time.Minute
	offerMaxPause = time.Hour
	// maxOffers bounds the Jobs of one cluster that are offered at the same time.
	maxOffers = 256
	// maxEvent is what a Job's event may have in bytes.
	maxEvent = 96 << 10
)

func tell(state record.OfferState, message string) decision {
	return decision{step: stepTell, state: state, message: message}
}

func do(step step) decision { return decision{step: step} }

func lookAfter(d time.Duration) decision { return decision{step: stepLook, after: d} }

// plan decides. It answers a step other than rest, look and read only to a fresh
// sight.
func plan(s situation) decision {
	if s.stopped {
		return do(stepRest)
	}
	if j := s.job; !s.fresh && j != nil && j.Mark.Holding() && j.Queued() {
		return do(stepRead) // its Workload is not watched
	}
	d := s.next()
	if d.step > stepRead && !s.fresh {
		return do(stepRead)
	}
	return d
}

func (s situation) next() decision {
	o, j := s.offer, s.job
	if o != nil && offerOver(o.State) {
		if s.answered {
			return do(stepRest)
		}
		return do(stepForget)
	}
	switch {
	case j == nil || j.Leaving || j.Ended:
		return s.gone()
	case j.Mark.Holding():
		return s.held()
	}
	return s.free()
}

func offerOver(state record.OfferState) bool {
	return state == record.OfferReleased || state == record.OfferRestored || state == record.OfferStarted
}

// gone is about a Job that is deleted, or has ended.
func (s situation) gone() decision {
	switch {
	case s.offer == nil:
		return do(stepRest)
	case s.answer == record.OfferRelease && s.job == nil:
		return tell(record.OfferReleased, "")
	case s.answer == record.OfferRelease && s.job.Leaving:
		return lookAfter(offerPoll)
	case s.offer.State == record.OfferWaiting && !s.answered:
		return do(stepForget)
	case s.job == nil || s.job.Leaving:
		return tell(record.OfferStarted, "somebody else deleted the Job")
	}
	return tell(record.OfferStarted, "the Job has ended")
}

// free is about a Job that is not held.
func (s situation) free() decision {
	o := s.offer
	waits, why, again := s.waits()
	if o == nil {
		switch {
		case s.answered || !waits || !s.space:
			if again > 0 {
				return lookAfter(again)
			}
			return do(stepRest)
		}
		return tell(record.OfferWaiting, why)
	}
	switch {
	case s.answer == record.OfferRestore:
		return tell(record.OfferRestored, s.refused)
	case s.answer == record.OfferRelease || o.State == record.OfferFrozen:
		return tell(record.OfferStarted, "somebody else took the Job out of our hold")
	case waits && s.answer == record.OfferFreeze:
		return do(stepMark)
	case waits && (o.Epoch != s.epoch):
		return tell(record.OfferWaiting, why)
	case waits:
		return do(stepRest)
	case !s.answered:
		return do(stepForget)
	case s.given():
		return tell(record.OfferStarted, why)
	}
	return tell(record.OfferRestored, why)
}

// given says whether a pod of the Job has, or had, a node and can start.
func (s situation) given() bool {
	for _, p := range s.job.Pods {
		if p.Node != "" && !p.Held {
			return true
		}
	}
	return false
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
	case j.Odd != "":
		return false, j.Odd, 0
	case j.Rescheduler:
		return false, "OSCAR's own rescheduler may take it", 0
	case !neverStarted(j):
		return false, "it may have started before", 0
	case s.fresh && len(j.Event) > maxEvent:
		return false, fmt.Sprintf("its event has %d bytes; %d is the most", len(j.Event), maxEvent), 0
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

// since is when the Job began to wait for room; false when it does not.
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
	case active[0].Leaving || active[0].Held:
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

// held is about a Job with the mark of an offer that stands.
func (s situation) held() decision {
	o := s.offer
	switch {
	case s.answer == record.OfferRestore:
		return s.giveBack(false)
	case o == nil:
		// The store has lost it. Whoever decides is asked again.
		return tell(record.OfferWaiting, "it was held for an offer that is not known any more")
	case s.answer == "" && o.State == record.OfferWaiting:
		if o.Epoch != s.epoch {
			return tell(record.OfferWaiting, o.Message)
		}
		return do(stepRest)
	case !s.promised() && (s.refused != "" || s.job.Mark.State == kube.MarkRestoring):
		return s.giveBack(false)
	}
	d, frozen := s.freeze()
	switch {
	case !frozen:
		return d
	case s.answer == record.OfferRelease:
		return do(stepDelete)
	case o.State == record.OfferFrozen && o.Epoch == s.epoch:
		return do(stepRest)
	}
	return tell(record.OfferFrozen, "")
}

// promised says that somebody else may have the Job: it is not given back without an
// answer that says so.
func (s situation) promised() bool {
	return s.offer.State == record.OfferFrozen || s.answer == record.OfferRelease
}

// left says whether we took the Job out of a queue of Kueue.
func left(j *kube.Job) bool { return j.Queue == "" && j.Mark.Queue != "" }

// freeze is the next step to a Job that can start nothing, or true when it is there.
func (s situation) freeze() (decision, bool) {
	j := s.job
	switch ours := j.Mark.Suspended || j.Mark.Queue != ""; {
	case ours != j.Suspended, j.Mark.Queue != "" && j.Queue != "":
		// Somebody else resumed or suspended it, or put it back into its queue.
		return s.giveBack(true), false
	case !j.Suspended:
		return s.holdPods(), false
	}
	if d, stray := s.stray(); stray {
		return d, false
	}
	switch w := j.Workload; {
	case !j.Settled:
		return lookAfter(offerPoll), false
	case w == nil, j.Mark.Suspended && w.Admitted:
		// One that had its place keeps it: Kueue takes it from no Job that has left.
	case w.Admitted && !s.promised():
		return s.giveBack(false), false // Kueue has room for it after all
	case w.Active:
		return do(stepDeactivate), false
	}
	return decision{}, true
}

// stray is about a pod of a suspended Job that is not held. Nothing makes one of a Job
// whose pods were all held when it was suspended, unless somebody takes away a pod
// with its finalizers: what became of it is not known.
func (s situation) stray() (decision, bool) {
	for _, p := range activePods(s.job) {
		switch {
		case p.Held:
		case s.promised():
			return lookAfter(offerPoll), true // the Job controller takes it away
		default:
			return s.giveBack(true), true
		}
	}
	return decision{}, false
}

// holdPods holds the pod of a Job that is not suspended, and then suspends it.
func (s situation) holdPods() decision {
	active := activePods(s.job)
	for _, p := range active {
		switch {
		case p.Held:
		case p.Node != "":
			return s.giveBack(false) // it was given a node first
		case p.Leaving:
			return lookAfter(offerPoll)
		default:
			return decision{step: stepHold, pod: p}
		}
	}
	if len(active) == 0 {
		return lookAfter(offerPoll) // it is about to get its pod
	}
	return do(stepSuspend)
}

// giveBack is the next step to a Job that is as it was found. After spoiled it is not
// offered again: it is not known any more whether it has started.
func (s situation) giveBack(spoiled bool) decision {
	d := s.back()
	d.spoiled = spoiled
	return d
}

func (s situation) back() decision {
	j := s.job
	holds := false
	for _, p := range activePods(j) {
		holds = holds || p.Held && !p.Leaving
	}
	if j.Suspended && holds {
		// Until the Job controller has taken it away: a Job that is resumed before keeps
		// a pod that can start nothing.
		return lookAfter(offerPoll)
	}
	inactive := j.Mark.Queue != "" && j.Workload != nil && !j.Workload.Active
	switch {
	case !j.Suspended && !j.Mark.Suspended && holds:
		return do(stepSuspend) // a pod that can start nothing has to go
	case left(j) && !j.Suspended:
		return do(stepUnmark) // Kueue will not know when it ends: its Workload is to take no place
	case j.Mark.State == kube.MarkRestoring && inactive:
		return do(stepActivate)
	case inactive:
		return do(stepRestoring)
	case j.Mark.Suspended && j.Suspended && !j.Queued():
		return do(stepResume)
	}
	return do(stepUnmark)
}
