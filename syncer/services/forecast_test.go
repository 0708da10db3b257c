package services

import (
	"testing"
	"time"
)

func TestForecast(t *testing.T) {
	l := newForecast()
	if d := l.promise("a", 1, nil, now); d != 0 {
		t.Errorf("the first creation waits %v", d)
	}
	if d := l.promise("b", 2, map[string]bool{"a": true}, now); d != firstGuess {
		t.Errorf("the second waits %v, want %v: the first is counted once", d, firstGuess)
	}
	if d := l.promise("b", 3, nil, now); d != firstGuess {
		t.Errorf("voted for again, it waits %v, want %v: it does not wait for itself", d, firstGuess)
	}
	if d := l.promise("c", 3, map[string]bool{"ordered": true}, now); d != 3*firstGuess {
		t.Errorf("the third waits %v, want %v", d, 3*firstGuess)
	}
	l.settle(func(name string, revision int64) bool { return name == "c" && revision == 3 })

	// A quick OSCAR makes the delay small.
	l.begin(now)
	l.end(now.Add(10*time.Millisecond), true, time.Minute)
	if d := l.promise("d", 4, nil, now); d != 10*time.Millisecond {
		t.Errorf("after a write of 10 ms it waits %v", d)
	}
	// A write that was refused at once counts for nothing.
	l.begin(now)
	l.end(now.Add(time.Millisecond), false, time.Minute)
	l.begin(now)
	l.end(now.Add(110*time.Millisecond), true, time.Minute)
	if got := l.each(); got != 40*time.Millisecond {
		t.Errorf("average %v, want 40ms", got)
	}
	// The write under way stands before the next, also when nobody was promised it.
	l.settle(func(string, int64) bool { return false })
	l.begin(now)
	if d := l.promise("e", 5, nil, now.Add(15*time.Millisecond)); d != 25*time.Millisecond {
		t.Errorf("behind a write of which 25 ms are left it waits %v", d)
	}
	if d := l.backlog(2); d != 3*40*time.Millisecond {
		t.Errorf("backlog %v, want three writes", d)
	}
}

// An OSCAR that does not answer in time is no quick one: its queue grows as long as it is waited for.
func TestAWriteWithoutAnAnswerTakesAsLongAsItWasWaitedFor(t *testing.T) {
	l := newForecast()
	l.begin(now)
	l.end(now.Add(time.Hour), false, time.Minute) // our machine slept
	if got := l.each(); got != time.Minute {
		t.Errorf("after a write that was waited for in vain each takes %v", got)
	}
	l.begin(now)
	l.end(now.Add(10*time.Second), true, time.Minute)
	if got := l.each(); got != 45*time.Second {
		t.Errorf("after one of 10 s each takes %v, want 45 s", got)
	}
}
