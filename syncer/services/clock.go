package services

import (
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// desiredByOurClock is what is desired of a name, with its deadline by our clock.
func (s *Services) desiredByOurClock(name string) *record.Desired {
	d := s.session.Desired(name)
	if d == nil || d.Deadline == nil {
		return d
	}
	out := *d
	at := record.At(s.due(name, d))
	out.Deadline = &at
	return &out
}

// due is when the deadline of a desired record passes by our clock: as long after it was
// first seen here as it has.
func (s *Services) due(name string, d *record.Desired) time.Time {
	since := s.deadlines.Since(name, d.UID+" "+d.Deadline.String(), s.session.Now())
	if d.DeadlineS <= 0 {
		return d.Deadline.Time // an older control plane does not say how long it has
	}
	return since.Add(time.Duration(d.DeadlineS) * time.Second)
}
