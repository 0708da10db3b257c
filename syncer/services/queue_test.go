package services

import (
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

func TestUrgency(t *testing.T) {
	due := func(in time.Duration) func(*record.Desired) {
		return func(d *record.Desired) { d.Deadline = new(record.At(now.Add(in))) }
	}
	because := func(c record.Cause) func(*record.Desired) { return func(d *record.Desired) { d.Cause = c } }
	// In the order in which they have to go.
	inOrder := []struct {
		name    string
		desired *record.Desired
		arrived time.Duration
	}{
		{"create, due soon", desired(record.IntentApply, due(time.Minute)), 0},
		{"create, due later", desired(record.IntentApply, due(2*time.Minute)), -time.Minute},
		{"create, due later, newer", desired(record.IntentApply, due(2*time.Minute)), 0},
		{"repair", desired(record.IntentApply), -time.Minute},
		{"ordered deletion, newer", desired(record.IntentDelete, because(record.CauseDeleted)), 0},
		{"rollback", desired(record.IntentDelete, because(record.CauseRollback)), -9 * time.Minute},
		{"create, too late", desired(record.IntentApply, due(-time.Second)), -8 * time.Minute},
		{"nothing desired", nil, -7 * time.Minute},
	}
	for i := range inOrder {
		for j := range inOrder {
			a, b := inOrder[i], inOrder[j]
			ua := urgencyOf(a.desired, now, now.Add(a.arrived))
			ub := urgencyOf(b.desired, now, now.Add(b.arrived))
			if got, want := ua.before(ub), i < j; got != want {
				t.Errorf("%q before %q: %v, want %v", a.name, b.name, got, want)
			}
		}
	}
	// Nobody waits for ever: after a while it is as urgent as what came in then.
	old := urgencyOf(desired(record.IntentDelete, because(record.CauseRollback)), now, now.Add(-overtaken-2*time.Minute))
	if create := urgencyOf(desired(record.IntentApply, due(time.Minute)), now, now); !old.before(create) {
		t.Error("a rollback that has waited long is still behind")
	}
}

func TestPriorityTakesTheMostUrgent(t *testing.T) {
	all := map[string]*record.Desired{
		"a": desired(record.IntentApply, func(d *record.Desired) { d.Deadline = new(record.At(now.Add(3 * time.Minute))) }),
		"b": desired(record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback }),
		"c": desired(record.IntentApply, func(d *record.Desired) { d.Deadline = new(record.At(now.Add(time.Minute))) }),
	}
	p := &priority{desired: func(name string) *record.Desired { return all[name] }, now: func() time.Time { return now }}
	for _, name := range []string{"a", "b", "c"} {
		p.Push(name)
	}
	// What is desired may change while it waits.
	all["b"].Intent, all["b"].Deadline = record.IntentApply, new(record.At(now.Add(2*time.Minute)))
	var got []string
	for p.Len() > 0 {
		got = append(got, p.Pop())
	}
	if want := []string{"c", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestLedger(t *testing.T) {
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
