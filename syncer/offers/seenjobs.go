package offers

import (
	"maps"
	"slices"
	"sync"

	"github.com/oscarfed/oscarfed/syncer/kube"
)

// seenJobs are the Jobs of our services as they were last seen. It
// is safe for concurrent use.
type seenJobs struct {
	mu   sync.Mutex
	jobs map[kube.JobKey]*kube.Job
	// of are the Jobs of each service.
	of map[string]map[kube.JobKey]bool
	// refusals are what Kubernetes said to attempts to hold a Job, by its uid.
	refusals map[string]string
	// theirs are the Jobs that OSCAR's own rescheduler may take.
	theirs map[kube.JobKey]bool
}

func newSeenJobs() *seenJobs {
	return &seenJobs{
		jobs: map[kube.JobKey]*kube.Job{}, of: map[string]map[kube.JobKey]bool{}, refusals: map[string]string{}, theirs: map[kube.JobKey]bool{},
	}
}

// note takes over a Job; nil when it is gone. It says how many OSCAR's own rescheduler may
// take, and whether this is the first.
func (s *seenJobs) note(key kube.JobKey, job *kube.Job) (theirs int, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.jobs[key]; before != nil {
		if job == nil || job.Ended || job.UID != before.UID {
			delete(s.refusals, before.UID)
		}
		if delete(s.of[before.Service], key); len(s.of[before.Service]) == 0 {
			delete(s.of, before.Service)
		}
	}
	none := len(s.theirs) == 0
	if delete(s.theirs, key); job != nil && job.Rescheduler && !job.Ended {
		s.theirs[key] = true
	}
	// One that has ended stays for a month, and is of no interest.
	if delete(s.jobs, key); job != nil && !job.Ended {
		s.jobs[key] = job
		if s.of[job.Service] == nil {
			s.of[job.Service] = map[kube.JobKey]bool{}
		}
		s.of[job.Service][key] = true
	}
	return len(s.theirs), none && len(s.theirs) > 0
}

// job is the last that was seen of a Job; nil for none.
func (s *seenJobs) job(key kube.JobKey) *kube.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[key]
}

// ofService are the Jobs of a service.
func (s *seenJobs) ofService(service string) []kube.JobKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.of[service]))
}

// all are the Jobs of all services.
func (s *seenJobs) all() []kube.JobKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.jobs))
}

// refuse notes what Kubernetes said to an attempt, for as long as the Job is there and has not ended.
func (s *seenJobs) refuse(key kube.JobKey, uid, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job := s.jobs[key]; job != nil && job.UID == uid {
		s.refusals[uid] = message
	}
}

func (s *seenJobs) refusal(uid string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusals[uid]
}
