package events

import (
	"container/list"
	"crypto/rand"
	"fmt"
	"slices"
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
	// textOverhead are the bytes of a name besides its letters.
	textOverhead = 16
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
	// visibility and allowed were those of its federation. The log shares allowed as readers.
	visibility string
	allowed    []string
	readers    *readers
}

// readers are the allowed users of a federation at some time. There may be 128 KiB of them, and each
// record that is decoded has its own: events with the same ones share them.
type readers struct {
	allowed []string
	events  int
}

func (r *readers) size() (bytes int) {
	for _, user := range r.allowed {
		bytes += len(user) + textOverhead
	}
	return bytes
}

func (h *happened) size() int {
	return eventOverhead + len(h.Message) + len(h.Hint) + len(h.Cause) + len(h.GroupID) + len(h.Owner) + len(h.sender) + len(h.private) +
		len(h.ClusterID) + len(h.ServiceName) + len(h.Job)
}

// log has the newest events of each account, in the order in which they happened. The account of
// an event is its owner's; that of clusters and of the system is empty. It is not safe for
// concurrent use.
type log struct {
	// id tells the logs of instances apart: each numbers its events.
	id       string
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
	// readers are the last ones of each federation.
	readers map[string]*readers
	// floor is the revision up to which its events were forgotten, and since the time of the last.
	floor int64
	since time.Time
}

// share gives an event the readers that it shares, and says how many bytes are added.
func (a *account) share(h *happened) int {
	if len(h.allowed) == 0 {
		return 0
	}
	r, added := a.readers[h.Federation], 0
	if r == nil || !slices.Equal(r.allowed, h.allowed) {
		r = &readers{allowed: h.allowed}
		a.readers[h.Federation], added = r, r.size()
	}
	r.events++
	h.allowed, h.readers = r.allowed, r
	return added
}

// unshare takes the readers of an event away, and says how many bytes are gone.
func (a *account) unshare(h *happened) int {
	r := h.readers
	if r == nil {
		return 0
	}
	if r.events--; r.events > 0 {
		return 0
	}
	if a.readers[h.Federation] == r {
		delete(a.readers, h.Federation)
	}
	return r.size()
}

func newLog(since time.Time, revision int64) *log {
	return &log{id: rand.Text(), all: list.New(), accounts: map[string]*account{}, floor: revision, since: since}
}

// add keeps an event, and forgets the oldest beyond the limits.
func (l *log) add(h *happened) {
	l.sequence++
	h.sequence = l.sequence
	h.ID = fmt.Sprintf("%d-%d", h.Revision, h.sequence)
	a := l.accounts[h.Owner]
	if a == nil {
		a = &account{elements: list.New(), readers: map[string]*readers{}}
		l.accounts[h.Owner] = a
	}
	a.elements.PushBack(l.all.PushBack(h))
	bytes := h.size() + a.share(h)
	a.bytes += bytes
	l.bytes += bytes
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
	bytes := h.size() + a.unshare(h)
	a.bytes -= bytes
	l.bytes -= bytes
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

// behind says which events come behind a position. One of another log is a revision only: all events up to it come, of which
// some may come twice. That log may have seen changes up to it which this one has seen together with the next ones: these come, too.
func (l *log) behind(at position) func(*happened) bool {
	switch {
	case at == position{}:
		return func(*happened) bool { return true }
	case at.log == l.id:
		return func(h *happened) bool { return h.sequence < at.sequence }
	}
	last := at.revision
	l.newest(func(h *happened) bool {
		if h.Revision >= at.revision {
			last = h.Revision
		}
		return h.Revision > at.revision
	})
	return func(h *happened) bool { return h.Revision <= last }
}
