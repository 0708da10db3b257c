package services

import (
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

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

// begin and end enclose one turn of the write queue, whatever is written in it.
func (f *forecast) begin(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = now
}

// end takes the time into the average when OSCAR has answered a create or delete in it. Any other turn counts, limit at
// most, only when it was longer than the average.
func (f *forecast) end(now time.Time, answered bool, limit time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	took := now.Sub(f.started)
	if !answered {
		took = min(took, limit)
	}
	f.started = time.Time{}
	switch {
	case !answered && took <= f.each():
	case !f.measured:
		f.perWrite, f.measured = took, true
	default:
		f.perWrite += (took - f.perWrite) * 3 / 10
	}
}

func (f *forecast) each() time.Duration {
	if !f.measured {
		return firstGuess
	}
	return f.perWrite
}

// promise enters a creation that is about to be voted yes for, and returns how
// long the writes before it will take. outstanding are the other creations and
// changes of the mirror that are not finished.
func (f *forecast) promise(name string, revision int64, outstanding map[string]bool, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.promised[name] = revision
	return f.delay(name, outstanding, now)
}

// before is what promise returns, for a creation that nobody votes on.
func (f *forecast) before(name string, outstanding map[string]bool, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.delay(name, outstanding, now)
}

func (f *forecast) delay(name string, outstanding map[string]bool, now time.Time) time.Duration {
	before := 0
	for other := range outstanding {
		if _, counted := f.promised[other]; other != name && !counted {
			before++
		}
	}
	for other := range f.promised {
		if other != name {
			before++
		}
	}
	delay := time.Duration(before) * f.each()
	if before == 0 && !f.started.IsZero() {
		delay += max(f.each()-now.Sub(f.started), 0) // a delete that cannot be overtaken
	}
	return delay
}

// settle drops promises that the mirror shows to be kept or void.
func (f *forecast) settle(open func(name string, revision int64) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, revision := range f.promised {
		if !open(name, revision) {
			delete(f.promised, name)
		}
	}
}

// backlog is how long n waiting writes will take.
func (f *forecast) backlog(n int) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.started.IsZero() {
		n++
	}
	return time.Duration(n) * f.each()
}

// outstanding names the creations and changes that were ordered, or voted yes
// for, and have no outcome yet. Each record is decoded once: a cluster may have thousands, and many votes are cast at once.
func (s *Services) outstanding(view *store.MirrorView) map[string]bool {
	s.ordersMu.Lock()
	defer s.ordersMu.Unlock()
	out, orders := map[string]bool{}, make(map[string]order, len(s.orders))
	for kv := range view.Prefix(record.DesiredServicesPrefix(s.session.ID)) {
		name := record.ParseKey(kv.Key).Name
		reported, _ := view.KV(record.ObservedServiceKey(s.session.ID, name))
		o, known := s.orders[name]
		if !known || o.desired != kv.ModRevision || o.observed != reported.ModRevision {
			o = order{desired: kv.ModRevision, observed: reported.ModRevision, open: s.isOutstanding(view, name, kv)}
		}
		orders[name] = o
		if o.open {
			out[name] = true
		}
	}
	s.orders = orders
	return out
}

// order is whether an order has no outcome yet, by the revisions of its records.
type order struct {
	desired, observed int64
	open              bool
}

func (s *Services) isOutstanding(view *store.MirrorView, name string, kv store.KV) bool {
	d, err := store.Decode[record.Desired](kv)
	if err != nil || d.Tombstone() {
		return false
	}
	o := s.session.Observed(view, name, d.UID)
	switch d.Intent {
	case record.IntentPrepare:
		vote := o.VoteOn(kv.ModRevision)
		return vote != nil && vote.Answer == record.VoteYes
	case record.IntentApply:
		return o == nil || o.DesiredRevision != kv.ModRevision
	}
	return false
}

// Mirrored drops, by a new view of the records, the promises whose prepare is gone or has become an
// order: from then on the mirror shows them as outstanding.
func (s *Services) Mirrored(view *store.MirrorView) {
	s.process.forecast.settle(func(name string, revision int64) bool {
		kv, ok := view.KV(record.DesiredServiceKey(s.session.ID, name))
		return ok && kv.ModRevision == revision
	})
}
