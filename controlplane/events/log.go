package events

import (
	"container/list"
	"fmt"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Limits of what is kept, in events and bytes: of all accounts together, and of each.
const (
	maxEvents        = 20_000
	maxBytes         = 16 << 20
	maxAccountEvents = 2_000
	maxAccountBytes  = 2 << 20
	// eventOverhead estimates the bytes of an event besides its texts.
	eventOverhead = 400
)

// happened is one event with those who may see it.
type happened struct {
	v1.SystemEvent
	// sequence orders the events of this instance.
	sequence int64
	// sender is the subject who sent the job that it is about.
	sender string
	// private is a sentence for the administrator alone.
	private string
	// visibility and allowed were those of its federation.
	visibility string
	allowed    []string
}

func (h *happened) size() int {
	return eventOverhead + len(h.Message) + len(h.Hint) + len(h.Cause) + len(h.GroupID) + len(h.Owner) + len(h.sender) + len(h.private) +
		len(h.ClusterID) + len(h.ServiceName) + len(h.Job)
}

// log has the newest events of each account, in the order in which they happened. The account of
// an event is its owner's; that of clusters and of the system is empty. It is not safe for
// concurrent use.
type log struct {
	all      *list.List
	accounts map[string]*account
	bytes    int
	sequence int64
	// floor is the revision up to which events of any account were forgotten for want of space,
	// and since the time of the last of them.
	floor int64
	since time.Time
}

// account has the elements of log.all that are of one account.
type account struct {
	elements *list.List
	bytes    int
	// floor is the revision up to which its events were forgotten, and since the time of the last.
	floor int64
	since time.Time
}

func newLog(since time.Time, revision int64) *log {
	return &log{all: list.New(), accounts: map[string]*account{}, floor: revision, since: since}
}

// add keeps an event, and forgets the oldest beyond the limits.
func (l *log) add(h *happened) {
	l.sequence++
	h.sequence = l.sequence
	h.ID = fmt.Sprintf("%d-%d", h.Revision, h.sequence)
	a := l.accounts[h.Owner]
	if a == nil {
		a = &account{elements: list.New()}
		l.accounts[h.Owner] = a
	}
	a.elements.PushBack(l.all.PushBack(h))
	a.bytes += h.size()
	l.bytes += h.size()
	for a.elements.Len() > maxAccountEvents || a.bytes > maxAccountBytes {
		gone := l.drop(a)
		a.floor, a.since = gone.Revision, gone.At.Time
	}
	for l.all.Len() > maxEvents || l.bytes > maxBytes {
		oldest := l.all.Front().Value.(*happened) //nolint:forcetypeassert // nothing else is in it
		l.drop(l.accounts[oldest.Owner])
		l.floor, l.since = oldest.Revision, oldest.At.Time
	}
}

// drop forgets the oldest event of an account.
func (l *log) drop(a *account) *happened {
	element := a.elements.Remove(a.elements.Front()).(*list.Element) //nolint:forcetypeassert // nothing else is in it
	h := l.all.Remove(element).(*happened)                           //nolint:forcetypeassert // nothing else is in it
	a.bytes -= h.size()
	l.bytes -= h.size()
	if a.elements.Len() == 0 { // the floor of all is behind its own from now on
		delete(l.accounts, h.Owner)
	}
	return h
}

// newest calls fn with the events from the newest on, until it returns false.
func (l *log) newest(fn func(*happened) bool) {
	for e := l.all.Back(); e != nil; e = e.Prev() {
		if !fn(e.Value.(*happened)) { //nolint:forcetypeassert // nothing else is in it
			return
		}
	}
}
