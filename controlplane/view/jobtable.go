package view

import (
	"iter"
	"maps"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// JobTable has the records of all jobs. A job that waits for its first attempt is packed there:
// Get makes its record anew, and what only looks for a job reads its Head.
type JobTable struct{ m map[string]jobSlot }

// jobSlot has one of the two.
type jobSlot struct {
	whole  *record.Job
	queued *record.QueuedJob
	rev    int64
}

func (s jobSlot) get() Versioned[record.Job] {
	if s.queued != nil {
		return Versioned[record.Job]{Rec: s.queued.Job(), Rev: s.rev}
	}
	return Versioned[record.Job]{Rec: s.whole, Rev: s.rev}
}

// JobHead is the part of a job's record that others look for it by.
type JobHead struct {
	Federation, GroupID, Owner, By, Cluster, Service string
	State                                            record.JobState
	Revision                                         int64
	AcceptedAt                                       time.Time
}

// Account is AccountOf the job.
func (h JobHead) Account() string { return accountOf(h.By, h.Owner) }

// Get is a job; the zero value for none.
func (t JobTable) Get(id string) Versioned[record.Job] { return t.m[id].get() }

// Lookup is a job, and whether there is one.
func (t JobTable) Lookup(id string) (Versioned[record.Job], bool) {
	s, ok := t.m[id]
	return s.get(), ok
}

// Position is that of a job; of none, its id.
func (t JobTable) Position(id string) JobPosition {
	if j := t.Get(id).Rec; j != nil {
		return PositionOf(j)
	}
	return JobPosition(id)
}

// Has says whether there is a job.
func (t JobTable) Has(id string) bool {
	_, ok := t.m[id]
	return ok
}

// Head is the head of a job; the zero value for none.
func (t JobTable) Head(id string) JobHead {
	s := t.m[id]
	switch {
	case s.queued != nil:
		of := s.queued.Shared()
		return JobHead{
			Federation: of.Federation, GroupID: of.GroupID, Owner: of.Owner, By: of.By, Cluster: of.Cluster, Service: of.Service,
			State: record.JobQueued, Revision: s.rev, AcceptedAt: s.queued.AcceptedAt(),
		}
	case s.whole != nil:
		j := s.whole
		return JobHead{
			Federation: j.Federation, GroupID: j.GroupID, Owner: j.Owner, By: j.By, Cluster: j.Cluster, Service: j.Service,
			State: j.State, Revision: s.rev, AcceptedAt: j.AcceptedAt.Time,
		}
	}
	return JobHead{}
}

// IDs are the ids of all jobs, in no order.
func (t JobTable) IDs() iter.Seq[string] { return maps.Keys(t.m) }
