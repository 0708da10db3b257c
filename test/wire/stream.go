package wire

import (
	"sync"
	"time"
)

// window in bytes is how much may be written and not read, as of TCP.
const window = 256 << 10

// stream is one direction of a connection. Its state is under the connection's lock.
type stream struct {
	lock               sync.Locker
	readable, writable sync.Cond
	// back is the other direction.
	back *stream

	// buf[read:] are the bytes that were written and not read. The last flying ones have not arrived.
	buf     []byte
	off     int
	flying  int
	flights []flight
	timer   *time.Timer
	// finished says that its end was sent, ended that it arrived: io.EOF or a reset.
	finished bool
	ended    error
	// unwanted says that nobody will read what is sent, and lost counts the bytes that were sent all
	// the same: the sender does not know it before it is told, and has a window until then.
	unwanted bool
	lost     int

	rules []*rule
	// frozen says that its sender is: what that writes now does not leave it before the thaw.
	frozen bool

	// slow says that a rule delays bytes, held that nothing arrives, hung that it stays so.
	slow, held, hung bool
	dice             dice
}

// flight is bytes that are under way, or the end of the stream.
type flight struct {
	bytes int
	end   error
	// at is when it arrives, unless it is held back.
	at time.Time
	// withheld says that it has not left a sender that is frozen.
	withheld bool
}

func (s *stream) unread() int    { return len(s.buf) - s.off }
func (s *stream) available() int { return s.unread() - s.flying }

// room is how much may be written without waiting.
func (s *stream) room() int { return window - s.unread() - s.lost }

// read takes bytes that have arrived.
func (s *stream) read(p []byte) int {
	n := copy(p, s.buf[s.off:len(s.buf)-s.flying])
	if s.off += n; s.off == len(s.buf) {
		s.buf, s.off = s.buf[:0], 0
	}
	s.writable.Broadcast()
	return n
}

// send puts bytes on their way.
func (s *stream) send(p []byte) {
	if s.unwanted || s.finished {
		s.lost += len(p)
		return
	}
	if len(p) == 0 {
		return
	}
	if s.off > 0 && len(s.buf)+len(p) > cap(s.buf) {
		s.buf, s.off = s.buf[:copy(s.buf, s.buf[s.off:])], 0
	}
	s.buf = append(s.buf, p...)
	s.flying += len(p)
	s.launch(flight{bytes: len(p)})
}

// finish sends the end of the stream.
func (s *stream) finish(how error) {
	if s.finished {
		return
	}
	s.finished = true
	s.launch(flight{end: how})
}

func (s *stream) launch(f flight) {
	if s.slow {
		f.at = time.Now().Add(delays(s.rules, &s.dice))
	}
	f.withheld = s.frozen
	last := len(s.flights) - 1
	if last < 0 && !s.slow && !s.held && !s.frozen {
		s.land(f)
		return
	}
	if last >= 0 {
		if before := &s.flights[last]; !f.at.After(before.at) {
			f.at = before.at
			if f.end == nil && before.end == nil && f.withheld == before.withheld {
				before.bytes += f.bytes
				return
			}
		}
	}
	s.flights = append(s.flights, f)
	if last < 0 {
		s.arrive()
	}
}

// arrive delivers what is due, and sets the timer for the next.
func (s *stream) arrive() {
	for !s.held && len(s.flights) > 0 && !s.flights[0].withheld {
		f := s.flights[0]
		if !f.at.IsZero() {
			if left := time.Until(f.at); left > 0 {
				s.wake(left)
				return
			}
		}
		s.flights = s.flights[1:]
		s.land(f)
	}
}

func (s *stream) wake(after time.Duration) {
	if s.timer != nil {
		s.timer.Reset(after)
		return
	}
	s.timer = time.AfterFunc(after, func() {
		s.lock.Lock()
		defer s.lock.Unlock()
		s.arrive()
	})
}

func (s *stream) land(f flight) {
	s.flying -= f.bytes
	if f.end != nil {
		s.ended = f.end
		s.back.writable.Broadcast() // the other side's writes fail
	}
	s.readable.Broadcast()
}

// discard loses all that was sent and will be.
func (s *stream) discard() {
	s.unwanted = true
	s.buf, s.off, s.flying, s.flights = nil, 0, 0, nil
	if s.timer != nil {
		s.timer.Stop()
	}
	s.writable.Broadcast()
}

// freeze withholds what is sent from now on, or lets go of it.
func (s *stream) freeze(frozen bool) {
	if s.frozen = frozen; frozen {
		return
	}
	for i := range s.flights {
		if f := &s.flights[i]; f.withheld {
			f.withheld = false
			if s.slow {
				f.at = time.Now().Add(delays(s.rules, &s.dice))
			}
			if i > 0 && f.at.Before(s.flights[i-1].at) {
				f.at = s.flights[i-1].at
			}
		}
	}
	s.arrive()
}

// withheld counts the bytes that have not left a frozen sender.
func (s *stream) withheld() (n int) {
	for _, f := range s.flights {
		if f.withheld {
			n += f.bytes
		}
	}
	return n
}

// truncate loses all unread bytes but the first ones.
func (s *stream) truncate(keep int) {
	lost := s.unread() - keep
	s.buf = s.buf[:len(s.buf)-lost]
	for i := len(s.flights) - 1; i >= 0 && lost > 0; i-- {
		n := min(lost, s.flights[i].bytes)
		s.flights[i].bytes -= n
		s.flying -= n
		lost -= n
	}
}

// follow obeys other rules from now on.
func (s *stream) follow(rules []*rule) {
	s.rules, s.slow = rules, false
	for _, r := range rules {
		s.slow = s.slow || r.Delay > 0 || r.Jitter > 0
	}
	if s.held = s.hung || cuts(rules); !s.held {
		s.arrive()
	}
}
