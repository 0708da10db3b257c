package answers

import (
	"context"
	"sync"
	"time"
)

// Shared lets many callers use one answer of OSCAR. A caller says how old the
// answer may be by the time at which it was asked for; callers that cannot use the
// present one wait together for the next.
type Shared[T any] struct {
	fetch func(context.Context) (T, error)
	now   func() time.Time
	// run bounds the calls: they outlive the callers that wait for them.
	run   context.Context
	calls sync.WaitGroup

	mu      sync.Mutex
	last    *call[T] // the newest answer
	running *call[T]
	next    *call[T] // waits for running to end
}

// call is one call and its answer.
type call[T any] struct {
	started time.Time
	done    chan struct{}
	value   T
	err     error
}

// NewShared shares the answers of fetch, whose calls end with run.
func NewShared[T any](run context.Context, now func() time.Time, fetch func(context.Context) (T, error)) *Shared[T] {
	return &Shared[T]{run: run, now: now, fetch: fetch}
}

// Get returns an answer to a call that was started at notBefore or later, and
// when it was started.
func (s *Shared[T]) Get(ctx context.Context, notBefore time.Time) (T, time.Time, error) {
	f := s.join(notBefore)
	select {
	case <-f.done:
		return f.value, f.started, f.err
	case <-ctx.Done():
		var none T
		return none, time.Time{}, context.Cause(ctx)
	}
}

// GetSoon is Get for a caller that can do without: it waits until the call under way has taken patience, and for
// no other call. ok says that there is an answer.
func (s *Shared[T]) GetSoon(ctx context.Context, notBefore time.Time, patience time.Duration) (value T, asked time.Time, ok bool) {
	f := s.join(notBefore)
	ctx, cancel := context.WithTimeout(ctx, patience-s.underWay())
	defer cancel()
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	select {
	case <-f.done:
		return f.value, f.started, f.err == nil
	default:
		return value, asked, false
	}
}

// underWay is how long the present call has taken; 0 without one.
func (s *Shared[T]) underWay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return 0
	}
	return s.now().Sub(s.running.started)
}

func (s *Shared[T]) join(notBefore time.Time) *call[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && s.last.err == nil && !s.last.started.Before(notBefore) {
		return s.last
	}
	switch {
	case s.running == nil:
		s.running = &call[T]{done: make(chan struct{})}
		s.start(s.running)
		return s.running
	case !s.running.started.Before(notBefore):
		return s.running
	case s.next == nil:
		s.next = &call[T]{done: make(chan struct{})}
	}
	return s.next
}

// start needs mu.
func (s *Shared[T]) start(f *call[T]) {
	f.started = s.now()
	s.calls.Go(func() {
		f.value, f.err = s.fetch(s.run)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last = f
		s.running, s.next = s.next, nil
		if s.running != nil {
			s.start(s.running)
		}
		close(f.done)
	})
}

// Newest is the last answer, if it was one.
func (s *Shared[T]) Newest() (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.last.err != nil {
		var none T
		return none, false
	}
	return s.last.value, true
}

// Since is the last answer, if it was one and is to a call that was started then or later; and when that was.
func (s *Shared[T]) Since(notBefore time.Time) (value T, asked time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.last.err != nil || s.last.started.Before(notBefore) {
		return value, asked, false
	}
	return s.last.value, s.last.started, true
}

// unanswered says that a call is under way that was started before then.
func (s *Shared[T]) unanswered(before time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running != nil && s.running.started.Before(before)
}

// Wait returns when no call is under way; run must have ended.
func (s *Shared[T]) Wait() { s.calls.Wait() }
