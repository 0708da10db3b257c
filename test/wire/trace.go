package wire

import (
	"fmt"
	"sync"
	"time"
)

// Event is something that happened in a network.
type Event struct {
	// At is the time since the network was made.
	At time.Duration
	// From and To are names of hosts, or patterns of a rule. To is empty for what one
	// host does.
	From, To string
	// Conn is the ordinal of the connection among those that From dialled to To; 0 for none.
	Conn int
	What string
}

// String is one line.
func (e Event) String() string {
	switch {
	case e.To == "":
		return fmt.Sprintf("%12v  %s: %s", e.At, e.From, e.What)
	case e.Conn == 0:
		return fmt.Sprintf("%12v  %s -> %s: %s", e.At, e.From, e.To, e.What)
	}
	return fmt.Sprintf("%12v  %s -> %s #%d: %s", e.At, e.From, e.To, e.Conn, e.What)
}

// traceLength is how many events are kept.
const traceLength = 1000

// trace keeps the last events.
type trace struct {
	began time.Time

	mu     sync.Mutex
	events []Event
	next   int
}

func (t *trace) add(from, to string, conn int, what string) {
	e := Event{At: time.Since(t.began), From: from, To: to, Conn: conn, What: what}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.events) < traceLength {
		t.events = append(t.events, e)
		return
	}
	t.events[t.next] = e
	t.next = (t.next + 1) % traceLength
}

// Trace gives the last events, oldest first: dials, faults, resets, and what became of hosts; not single
// writes.
func (n *Network) Trace() []Event {
	t := &n.trace
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(append([]Event{}, t.events[t.next:]...), t.events[:t.next]...)
}
