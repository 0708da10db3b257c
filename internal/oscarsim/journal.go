package oscarsim

import (
	"maps"
	"time"
)

// maxJournal bounds the log; the oldest go first.
const maxJournal = 4096

// Call is one request that changes something, in the order of arrival.
type Call struct {
	Op      Op     `json:"op"`
	Service string `json:"service,omitempty"`
	// By is the subject whose token it came with, or cluster_admin.
	By   string    `json:"by,omitempty"`
	Time time.Time `json:"time"`
	// Done is when it was answered or dropped; zero while it runs.
	Done time.Time `json:"done,omitzero"`
	// Status is the answer; 0 while it runs and when the connection was dropped.
	Status int `json:"status"`
}

// journal counts requests and remembers those that change something.
type journal struct {
	counts map[Op]int
	calls  []Call
	first  int // sequence number of calls[0]
	lives  []Life
	// next are closed when a request of an operation comes in.
	next map[Op]chan struct{}
}

func newJournal() journal { return journal{counts: map[Op]int{}, next: map[Op]chan struct{}{}} }

// enter counts a request, adds it to the log if it belongs there, and returns its sequence number in it, else -1. It
// refuses (and drops) the request when the process was killed meanwhile.
func (s *Sim) enter(c *call) (seq int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.life.ctx.Err() != nil {
		c.drop()
		return -1, false
	}
	c.life.running++
	if c.op == opControl {
		return -1, true
	}
	j := &s.journal
	j.counts[c.op]++
	j.arrives(c.op)
	if !mutates(c.op) {
		return -1, true
	}
	if len(j.calls) >= maxJournal {
		drop := maxJournal / 4
		j.calls = append(j.calls[:0:0], j.calls[drop:]...)
		j.first += drop
	}
	j.calls = append(j.calls, Call{Op: c.op, Service: c.service, Time: time.Now()})
	return j.first + len(j.calls) - 1, true
}

// leave notes the outcome of a request.
func (s *Sim) leave(seq int, c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.life.running--
	s.changed.Broadcast()
	if i := seq - s.journal.first; seq >= 0 && i >= 0 {
		entry := &s.journal.calls[i]
		entry.By = c.by()
		entry.Done = time.Now()
		if !c.dropped {
			entry.Status = c.status
		}
	}
	s.cfg.Logger.Debug("answered", "cluster", s.cfg.ClusterID, "op", c.op, "service", c.service, "status", c.status, "dropped", c.dropped)
}

// Calls returns how many requests came in, by operation (see Op), refused and faulty ones included. The simulator's own paths
// do not count.
func (s *Sim) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.journal.counts)
}

// Log returns the last requests that change something, in the order of arrival.
func (s *Sim) Log() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.journal.calls...)
}
