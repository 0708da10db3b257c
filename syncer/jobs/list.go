package jobs

import (
	"context"
	"time"

	"github.com/oscarfed/oscarfed/syncer/originstorage"
)

const (
	// maxJobPause is the longest pause between two lists of a service's Jobs.
	maxJobPause = 30 * time.Second
	// listShare bounds how much of the time OSCAR, or Kubernetes, is kept busy by them: a list is
	// followed by a pause of so many times its length.
	listShare = 3
)

// watch lists the Jobs of a service now and then, beginning soon. It needs mu.
func (j *Jobs) watch(service string) {
	s := j.serviceOf(service)
	s.pause = j.cfg.Poll
	if next := j.session.Now().Add(s.pause); s.next.IsZero() || next.Before(s.next) {
		s.next = next
		j.listings.AddAfter(service, s.pause)
	}
}

// listSoon lists the Jobs of a service as soon as that may be. It needs mu.
func (j *Jobs) listSoon(service string) {
	s := j.serviceOf(service)
	if !s.soon {
		s.soon = true
		j.listings.AddAfter(service, s.earliest.Sub(j.session.Now()))
	}
}

// list lists the Jobs of a service, if that is due.
func (j *Jobs) list(ctx context.Context, service string) (time.Duration, error) {
	if j.wantsList(service) {
		began := j.session.Now()
		jobs, err := j.lister.of(ctx, service)
		j.scrubPods(ctx, service, jobs)
		j.listed(ctx, service, began, jobs, err)
	}
	return 0, nil
}

// wantsList says whether it is time to list, and comes back when it is not yet.
func (j *Jobs) wantsList(service string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.services[service]
	if s == nil {
		return false
	}
	now, open, looking := j.session.Now(), false, false
	for _, a := range s.attempts {
		open, looking = open || a.open(), looking || !a.looking.IsZero()
	}
	due := s.next
	switch {
	case looking && s.soon:
		due = s.earliest
	case !open && !looking:
		s.next, s.soon = time.Time{}, false
		return false
	}
	if wait := due.Sub(now); wait > 0 {
		j.listings.AddAfter(service, wait)
		return false
	}
	return true
}

// listed notes what a list shows, and when the next one is to be.
func (j *Jobs) listed(ctx context.Context, service string, began time.Time, jobs map[string]listedJob, err error) {
	if err != nil && ctx.Err() == nil {
		j.session.Log.Warn("jobs of a service cannot be listed", "service", service, "error", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.services[service]
	if s == nil {
		return
	}
	ended := j.session.Now()
	news := false
	if err == nil {
		for _, a := range s.attempts {
			news = j.saw(a, began, jobs) || news
		}
	}
	switch {
	case news:
		s.pause = j.cfg.Poll
	case s.pause < maxJobPause:
		s.pause = min(max(s.pause*3/2, j.cfg.Poll), max(maxJobPause, j.cfg.Poll))
	}
	took := ended.Sub(began)
	s.next = ended.Add(max(s.pause, listShare*took))
	s.earliest = ended.Add(max(j.cfg.Poll/4, listShare*took))
	if err != nil {
		s.earliest = s.next
	}
	s.soon = err != nil && s.soon
	next := s.next
	if s.soon {
		next = s.earliest
	}
	j.listings.AddAfter(service, next.Sub(ended))
}

// saw notes what a list that was begun then shows of an attempt, and says whether it
// is news. It needs mu.
func (j *Jobs) saw(a *attempt, began time.Time, jobs map[string]listedJob) bool {
	if a.assignment == nil || !a.open() && a.looking.IsZero() || began.Before(a.looking) {
		return false
	}
	m := &a.memory
	before := m.listed
	job, present := jobs[a.assignment.Name]
	m.listed = &listed{started: began, present: present, job: job.Job, pod: job.pod}
	switch job.Status {
	case "Pending":
		m.unstarted = began
	case "Failed":
		if m.failed.IsZero() && m.fromOrigin {
			m.failed = began
			j.deps.Origins.Failed(a.service, originstorage.FailedAge)
		}
	}
	switch {
	case !job.pod.Stuck:
		m.stuck = time.Time{}
	case m.stuck.IsZero():
		m.stuck = began
	}
	m.seen = m.seen || present
	switch {
	case present:
		m.missing = time.Time{}
	case m.missing.IsZero() && !began.Before(m.lastWrite().Add(j.cfg.Grace)):
		m.missing = began
	}
	news := before == nil || before.present != present || before.job.Status != job.Status ||
		before.pod.Reason != job.pod.Reason || before.pod.CannotRun != job.pod.CannotRun || before.pod.Held != job.pod.Held
	if news || !present || !a.looking.IsZero() {
		a.looking = time.Time{}
		j.due.Add(a.key)
	}
	return news
}
