package services

import (
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// class orders writes of different kinds.
type class int

const (
	// inTime: creates and changes whose deadline has not passed.
	inTime class = iota
	// ordinary: repairs, changes without a deadline, deletes that were ordered.
	ordinary
	// behind: deletes of rollbacks, and creates that are too late. They give way,
	// so that one failed creation does not make the next one late.
	behind
)

// overtaken is how long a write may be overtaken by those of a better class.
const overtaken = 10 * time.Minute

// urgency of one write.
type urgency struct {
	class    class
	deadline time.Time // zero: none
	arrived  time.Time
}

// urgencyOf tells how urgent a write for a desired record is.
func urgencyOf(d *record.Desired, now, arrived time.Time) urgency {
	u := urgency{class: ordinary, arrived: arrived}
	switch {
	case d == nil:
		u.class = behind
	case d.Tombstone() && d.Cause == record.CauseRollback:
		u.class = behind
	case d.Tombstone():
	case d.Deadline != nil && now.After(d.Deadline.Time):
		u.class = behind
	case d.Deadline != nil:
		u.class, u.deadline = inTime, d.Deadline.Time
	}
	if u.class != inTime && now.Sub(arrived) > overtaken {
		u.class, u.deadline = inTime, arrived.Add(overtaken)
	}
	return u
}

// before says whether a write goes before another one.
func (u urgency) before(v urgency) bool {
	if u.class != v.class {
		return u.class < v.class
	}
	if !u.deadline.Equal(v.deadline) {
		if u.deadline.IsZero() || v.deadline.IsZero() {
			return v.deadline.IsZero()
		}
		return u.deadline.Before(v.deadline)
	}
	return u.arrived.Before(v.arrived)
}

// priority is the order of the write queue (workqueue.Queue). What is desired of
// a name may change while it waits, so the order is found when an item is taken.
type priority struct {
	desired func(name string) *record.Desired
	now     func() time.Time

	// The work queue calls from one goroutine at a time; Len is ours to guard too.
	mu    sync.Mutex
	items []waiting
}

type waiting struct {
	name    string
	arrived time.Time
}

// Touch implements workqueue.Queue: the place is kept.
func (p *priority) Touch(string) {}

// Push implements workqueue.Queue.
func (p *priority) Push(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.items = append(p.items, waiting{name, p.now()})
}

// Len implements workqueue.Queue.
func (p *priority) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.items)
}

// Pop implements workqueue.Queue: the most urgent item. It is not called on an
// empty queue.
func (p *priority) Pop() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, best := p.now(), 0
	var least urgency
	for i, item := range p.items {
		if u := urgencyOf(p.desired(item.name), now, item.arrived); i == 0 || u.before(least) {
			best, least = i, u
		}
	}
	name := p.items[best].name
	p.items = slices.Delete(p.items, best, best+1)
	return name
}
