package answers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSharedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		s := NewShared(t.Context(), time.Now, func(context.Context) (int64, error) {
			n := calls.Add(1)
			<-time.After(time.Second) // of the bubble's clock
			return n, nil
		})
		type answer struct {
			n       int64
			started time.Time
		}
		ask := func(notBefore time.Time) chan answer {
			out := make(chan answer, 1)
			go func() {
				n, started, err := s.Get(t.Context(), notBefore)
				if err != nil {
					t.Error(err)
				}
				out <- answer{n, started}
			}()
			synctest.Wait()
			return out
		}
		start := time.Now()
		first := ask(start)
		same := ask(start)
		<-time.After(500 * time.Millisecond)
		later := ask(time.Now())
		evenLater := ask(time.Now())
		for i, c := range []struct {
			got  chan answer
			want int64
		}{{first, 1}, {same, 1}, {later, 2}, {evenLater, 2}} {
			if a := <-c.got; a.n != c.want {
				t.Errorf("caller %d was given answer %d, want %d", i, a.n, c.want)
			}
		}
		// The last answer serves those who may have an old one.
		if a := <-ask(start); a.n != 2 {
			t.Errorf("an old answer was not used again: %d", a.n)
		}
		if a := <-ask(time.Now()); a.n != 3 || a.started.Before(start.Add(time.Second)) {
			t.Errorf("answer %d, started at %v", a.n, a.started.Sub(start))
		}
		s.Wait()
	})
}

func TestSharedFailureIsNotKept(t *testing.T) {
	fail := true
	s := NewShared(t.Context(), time.Now, func(context.Context) (int, error) {
		if fail {
			return 0, errors.New("away")
		}
		return 1, nil
	})
	long := time.Now().Add(-time.Hour)
	if _, _, err := s.Get(t.Context(), long); err == nil {
		t.Fatal("no error")
	}
	s.Wait()
	fail = false
	if n, _, err := s.Get(t.Context(), long); n != 1 || err != nil {
		t.Errorf("after the failure: %d, %v", n, err)
	}
	s.Wait()
}

func TestSharedCallerGivesUp(t *testing.T) {
	release := make(chan struct{})
	s := NewShared(t.Context(), time.Now, func(context.Context) (int, error) { <-release; return 1, nil })
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, _, err := s.Get(ctx, time.Now()); !errors.Is(err, gone) {
		t.Errorf("error %v, want the cause", err)
	}
	close(release)
	s.Wait()
}

// TestSharedCallerThatCanDoWithoutWaitsForNoCallThatHangs: callers wait for one, and only as long as it may be on its
// way.
func TestSharedCallerThatCanDoWithoutWaitsForNoCallThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 2 * time.Second
		var takes atomic.Int64
		takes.Store(int64(time.Second))
		s := NewShared(t.Context(), time.Now, func(context.Context) (time.Time, error) {
			<-time.After(time.Duration(takes.Load()))
			return time.Now(), nil
		})
		ask := func(age time.Duration) (ok bool, waited time.Duration) {
			began := time.Now()
			_, asked, ok := s.GetSoon(t.Context(), began.Add(-age), patience)
			if ok && asked.Before(began.Add(-age)) {
				t.Errorf("an answer of %s ago, want %s", began.Sub(asked), age)
			}
			return ok, time.Since(began)
		}
		for _, c := range []struct {
			what      string
			age       time.Duration
			hangs, ok bool
			waited    time.Duration
		}{
			{"nothing is known yet", 0, false, true, time.Second},
			{"what is known does", time.Minute, true, true, 0},
			{"the call hangs", 0, true, false, patience},
			{"it still hangs", 0, true, false, 0},
			{"what is known does while it hangs", time.Minute, true, true, 0},
		} {
			if c.hangs {
				takes.Store(int64(time.Hour))
			}
			if ok, waited := ask(c.age); ok != c.ok || waited != c.waited {
				t.Errorf("%s: answered %t after %s, want %t after %s", c.what, ok, waited, c.ok, c.waited)
			}
		}
		s.Wait()
	})
}
