package offers

import (
	"time"

	"github.com/oscarfed/oscarfed/syncer/kube"
)

// changeOf is how a step changes the Job that is offered as id. It is false for a step that
// changes no Job.
func changeOf(id string, job *kube.Job, d decision, now time.Time) (kube.JobChange, bool) {
	mark := kube.JobMark{Job: id, State: kube.MarkHolding}
	if job.Mark != nil {
		mark = *job.Mark
	}
	change := kube.JobChange{Mark: &mark}
	switch d.step {
	case stepMark:
		mark = kube.JobMark{Job: id, State: kube.MarkHolding, Times: mark.Times}
		if job.Workload != nil {
			mark.Workload = job.Workload.Name
		}
		if job.Suspended {
			leaveQueue(job, &change)
		}
	case stepSuspend:
		mark.Suspended, change.Suspend = true, new(true)
		leaveQueue(job, &change)
	case stepResume:
		change.Mark, change.Suspend = restored(mark, job.Generation+1, d, now), new(false)
	case stepRestoring:
		mark.State, mark.Generation = kube.MarkRestoring, job.Generation
		if d.spoiled {
			mark.Generation = 0
		}
	case stepUnmark:
		generation := job.Generation
		if mark.State == kube.MarkRestoring {
			generation = mark.Generation
		}
		change.Mark = restored(mark, generation, d, now)
		if left(job) && job.Suspended { // Kueue lets no running Job into a queue
			change.Queue = &mark.Queue
		}
	default:
		return kube.JobChange{}, false
	}
	return change, true
}

// leaveQueue takes a Job out of its queue of Kueue, and notes the queue in its mark.
func leaveQueue(job *kube.Job, change *kube.JobChange) {
	if job.Queue != "" {
		change.Mark.Queue, change.Queue = job.Queue, new("")
	}
}

// restored is the mark of a Job that is as it was found, with its generation then.
func restored(mark kube.JobMark, generation int64, d decision, now time.Time) *kube.JobMark {
	if d.spoiled {
		generation = 0
	}
	at := now.UTC().Truncate(time.Second)
	return &kube.JobMark{State: kube.MarkRestored, Generation: generation, Times: mark.Times + 1, At: &at}
}
