package offers

import (
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
)

// A Job that waits for capacity is offered to the federation, held when the control plane
// says that another cluster may take it, and then deleted or given back as it answers:
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

const (
	// offerPoll is the pause before a look at what a controller is to do.
	offerPoll = 2 * time.Second
	// A Job that no cluster took is not offered again before offerPause, twice as long each
	// time, and offerMaxPause at most.
	offerPause    = 5 * time.Minute
	offerMaxPause = time.Hour
	// maxOffers bounds the Jobs of one cluster that are offered at the same time.
	maxOffers = 256
)

func tell(state record.OfferState, message string) decision {
	return decision{step: stepTell, state: state, message: message}
}

// askAgain asks what becomes of a Job that is held, and of which the store does not know that.
func askAgain(message string) decision {
	d := tell(record.OfferWaiting, message)
	d.held = true
	return d
}

func do(step step) decision { return decision{step: step} }

func lookAfter(d time.Duration) decision { return decision{step: stepLook, after: d} }

// plan decides. It answers a step other than rest, look and read only to a fresh
// situation.
func plan(s situation) decision {
	if s.Stopped || s.Restored {
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
	case j == nil || j.Deleting || j.Ended:
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
	case s.answer == record.OfferRelease && s.job.Deleting:
		return lookAfter(offerPoll)
	case s.offer.State == record.OfferWaiting && !s.answered:
		return do(stepForget)
	case s.job == nil || s.job.Deleting:
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
		case s.answered || !waits || !s.another:
			if again > 0 {
				return lookAfter(again)
			}
			return do(stepRest)
		}
		return tell(record.OfferWaiting, why)
	}
	switch {
	case s.cancelled && s.job.Mark != nil: // another client took it out of our hold
		return do(stepDelete)
	case s.answer == record.OfferRestore:
		return tell(record.OfferRestored, s.refused)
	case s.answer == record.OfferRelease || o.State == record.OfferFrozen:
		return tell(record.OfferStarted, "somebody else took the Job out of our hold")
	case waits && s.answer == record.OfferFreeze:
		return do(stepMark)
	case waits && (o.Epoch != s.Epoch):
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

// held is about a Job with the mark of an offer that stands.
func (s situation) held() decision {
	o := s.offer
	switch {
	case s.answer == record.OfferRestore:
		return s.giveBack(false)
	case s.cancelled:
		return do(stepDelete)
	case o == nil:
		// The store has lost it. The control plane is asked again.
		return askAgain("it was held for an offer that is not known any more")
	case s.answer == "" && o.State == record.OfferWaiting:
		if o.Epoch != s.Epoch || !o.Held {
			return askAgain(o.Message)
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
	case o.State == record.OfferFrozen && o.Epoch == s.Epoch:
		return do(stepRest)
	}
	return tell(record.OfferFrozen, "")
}

// freeze is the next step to a Job that can start nothing, or true when it is there.
func (s situation) freeze() (decision, bool) {
	j := s.job
	switch ours := j.Mark.Suspended || j.Mark.Queue != ""; {
	case ours != j.Suspended, j.Mark.Queue != "" && j.Queue != "":
		// Another client resumed or suspended it, or put it back into its queue.
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
		return s.giveBack(false), false // Kueue has capacity for it after all
	case w.Active:
		return do(stepDeactivate), false
	}
	return decision{}, true
}

// stray is about a pod of a suspended Job that is not held. All pods were held when the Job was
// suspended, so there is one only when another client removed a pod with its finalizers: then it
// is not known what became of that pod.
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
		case p.Deleting:
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
		holds = holds || p.Held && !p.Deleting
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
