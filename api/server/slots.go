package server

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/api/server/respond"
	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// The refusals of one more watch, of one more change, of one more invocation or log, of one more
// other read that asks clusters, and of one more of any other.
const (
	tooManyWatches = "there are %d watches and waiting reads of this caller already; end one of them, or read without ?watch=true and ?wait="
	tooManyChanges = "%d changes of this caller are under way already, and this one was not begun; send it again after the pause in Retry-After"
	tooManyAnswers = "%d invocations and logs of this caller are under way already, and this one was not begun; send it again after the pause in Retry-After"
	tooManyReads   = "%d reads of this caller that ask clusters are under way already, and this one was not begun; send it again after the pause in Retry-After"
	tooManyPlain   = "%d reads of this caller are under way already, and this one was not begun; send it again after the pause in Retry-After"
)

// atATime limits what a caller has under way. A change takes its slot before it is read, so what
// was accepted is not refused; it may wait for its outcome. A read that waits holds what a watch
// holds, and counts as one. Another one holds its answer, of up to some MiB, until its caller has read it.
func (s *Server) atATime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		slots := s.changes
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			switch {
			case watching(r): // it counts itself
				next.ServeHTTP(w, r)
				return
			case paramsOf(r).wait(0) == 0:
				slots = s.plain
			default:
				slots = s.watchers
			}
		}
		s.inSlot(slots, next).ServeHTTP(w, r)
	})
}

// inSlot lets a request through while its caller has one of the slots.
func (s *Server) inSlot(slots *slots, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, err := slots.enter(respond.StateOf(r).Caller.Account())
		if err != nil {
			s.fail(w, r, err)
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}

// answersAtATime limits the answers of clusters that a caller has open: each may have 256 KiB here
// that he has not read (package relay).
func (s *Server) answersAtATime(next http.Handler) http.Handler { return s.inSlot(s.answers, next) }

// clustersAtATime limits the other requests of a caller that clusters answer, which may take them a
// minute: what changes something is a change, and the answer to a read is held here until it is whole.
func (s *Server) clustersAtATime(next http.Handler) http.Handler {
	reads, changes := s.inSlot(s.reads, next), s.inSlot(s.changes, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			reads.ServeHTTP(w, r)
			return
		}
		changes.ServeHTTP(w, r)
	})
}

// slots limit how many requests of each caller are open at a time.
type slots struct {
	max int
	// refusal says what there are max of; retryAfter goes with it.
	refusal    string
	retryAfter time.Duration

	mu   sync.Mutex
	open map[string]int
}

func newSlots(most int, refusal string, retryAfter time.Duration) *slots {
	return &slots{max: most, refusal: refusal, retryAfter: retryAfter, open: map[string]int{}}
}

// enter counts one more request of a caller; leave must be called when it ends.
func (s *slots) enter(caller string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[caller] >= s.max {
		return nil, &fault.Error{Code: fault.CodeExhausted, Message: fmt.Sprintf(s.refusal, s.max), RetryAfter: s.retryAfter}
	}
	s.open[caller]++
	return func() { s.leave(caller) }, nil
}

func (s *slots) leave(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[caller]--; s.open[caller] == 0 {
		delete(s.open, caller)
	}
}
