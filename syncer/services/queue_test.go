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
