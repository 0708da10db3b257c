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

// forecast knows how long writes take and what has been promised, to tell a voter
// what stands before its creation.
type forecast struct {
	mu sync.Mutex
	// perWrite is a moving average; unknown until the first write.
	perWrite time.Duration
	measured bool
	// promised are the creations that were voted yes for, by service name and
	// revision of the prepare: the mirror shows their reports a little later.
	promised map[string]int64
	// started is when the write under way began; zero: none is.
	started time.Time
}

// firstGuess is what one write is taken to need before any was seen: OSCAR
// restarts MinIO and sleeps for 6 s.
const firstGuess = 7 * time.Second

func newForecast() *forecast { return &forecast{promised: map[string]int64{}} }

// begin and end enclose one write that makes or deletes a service.
func (l *forecast) begin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = now
}

// end takes the write's duration into the average, if it was answered. One without an answer takes at least as long as
// it was waited for, limit at most: that counts when it is longer than the others were.
func (l *forecast) end(now time.Time, answered bool, limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := now.Sub(l.started)
	if !answered {
		took = min(took, limit)
	}
	l.started = time.Time{}
	switch {
	case !answered && took <= l.each():
	case !l.measured:
		l.perWrite, l.measured = took, true
	default:
		l.perWrite += (took - l.perWrite) * 3 / 10
	}
}

func (l *forecast) each() time.Duration {
	if !l.measured {
		return firstGuess
	}
	return l.perWrite
}

// promise enters a creation that is about to be voted yes for, and returns how
// long the writes before it will take. outstanding are the other creations and
// changes of the mirror that are not finished.
func (l *forecast) promise(name string, revision int64, outstanding map[string]bool, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.promised[name] = revision
	return l.delay(name, outstanding, now)
}

// before is what promise returns, for a creation that nobody votes on.
func (l *forecast) before(name string, outstanding map[string]bool, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay(name, outstanding, now)
}

func (l *forecast) delay(name string, outstanding map[string]bool, now time.Time) time.Duration {
	before := 0
	for other := range outstanding {
		if _, counted := l.promised[other]; other != name && !counted {
			before++
		}
	}
	for other := range l.promised {
		if other != name {
			before++
		}
	}
	delay := time.Duration(before) * l.each()
	if before == 0 && !l.started.IsZero() {
		delay += max(l.each()-now.Sub(l.started), 0) // a delete that cannot be overtaken
	}
	return delay
}

// settle drops promises that the mirror shows to be kept or void.
func (l *forecast) settle(open func(name string, revision int64) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, revision := range l.promised {
		if !open(name, revision) {
			delete(l.promised, name)
		}
	}
}

// backlog is how long n waiting writes will take.
func (l *forecast) backlog(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.started.IsZero() {
		n++
	}
	return time.Duration(n) * l.each()
}
