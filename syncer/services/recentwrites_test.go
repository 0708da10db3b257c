package services

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

func TestUnansweredPostEndsWhenItIsSeen(t *testing.T) {
	b := newRecentWrites(5*time.Minute, time.Minute)
	d := desired(record.IntentDelete)
	b.change("s", func(n *recent) { n.postAt = now })
	if m := b.read("s", d, 1); !m.postUntil.Equal(now.Add(5 * time.Minute)) {
		t.Errorf("until %v", m.postUntil)
	}
	b.sawPresent("s")
	if m := b.read("s", d, 1); !m.postUntil.IsZero() {
		t.Error("it had its effect, and is still waited for")
	}
}

func TestAssumedPost(t *testing.T) {
	b := newRecentWrites(5*time.Minute, time.Minute)
	b.assume("s", now)
	if m := b.read("s", desired(record.IntentApply), 1); !m.postUntil.IsZero() || !m.workingUntil.Equal(now.Add(time.Minute)) {
		t.Errorf("apply: until %v, working until %v; a second POST of one life does no harm", m.postUntil, m.workingUntil)
	}
	tombstone := desired(record.IntentDelete)
	if m := b.read("s", tombstone, 1); !m.postUntil.Equal(now.Add(5 * time.Minute)) {
		t.Errorf("tombstone: until %v", m.postUntil)
	}
	// Our own POST succeeded: what is seen is from that, and the assumed one may
	// still come.
	b.change("s", func(n *recent) { n.posted = true })
	b.sawPresent("s")
	if m := b.read("s", tombstone, 1); m.postUntil.IsZero() {
		t.Error("our own service was taken for the assumed one")
	}
	b.assume("s", now)
	b.sawPresent("s")
	if m := b.read("s", tombstone, 1); !m.postUntil.IsZero() {
		t.Error("the assumed POST was seen, and is still waited for")
	}
}

func TestAPOSTAfterOneThatBrokeOff(t *testing.T) {
	b := newRecentWrites(5*time.Minute, time.Minute)
	apply, tombstone := desired(record.IntentApply), desired(record.IntentDelete)
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	until := func(name string, d *record.Desired) time.Duration { return b.read(name, d, 1).postUntil.Sub(now) }
	for name, silent := range map[string]bool{"broke": false, "silent": true} {
		b.change(name, func(n *recent) { b.sends(n, now, time.Minute); b.breaksOff(n, silent, at(30)) })
		want := map[bool]time.Duration{false: 30 * time.Second, true: 5 * time.Minute}[silent]
		if got := until(name, apply); got != want {
			t.Errorf("%s: the next is sent after %s", name, got)
		}
		if got := until(name, tombstone); got != 5*time.Minute {
			t.Errorf("%s: a tombstone waits for %s", name, got)
		}
	}
	// It breaks off, too.
	b.change("broke", func(n *recent) { b.sends(n, at(40), time.Minute); b.breaksOff(n, false, at(70)) })
	if got := until("broke", apply); got != 5*time.Minute+40*time.Second {
		t.Errorf("the third is sent after %s", got)
	}
	b.assume("broke", at(50)) // in another session
	b.sawPresent("broke")
	if got := until("broke", tombstone); got != 5*time.Minute+50*time.Second {
		t.Errorf("one of two was seen, and a tombstone waits for %s", got)
	}
}

func TestUnansweredDeleteEndsWithTwoLists(t *testing.T) {
	b := newRecentWrites(5*time.Minute, time.Minute)
	d := desired(record.IntentDelete)
	open := func() bool { return !b.read("s", d, 1).deleteUntil.IsZero() }
	b.change("s", func(n *recent) { n.deleteAt = now })
	b.sawAbsent("s", now.Add(-time.Second)) // a list from before
	b.sawAbsent("s", now.Add(time.Second))
	b.sawAbsent("s", now.Add(time.Second)) // the same list
	if !open() {
		t.Error("ended by one list")
	}
	b.sawPresent("s")
	b.sawAbsent("s", now.Add(2*time.Second))
	if !open() {
		t.Error("ended by lists with the service between them")
	}
	b.sawAbsent("s", now.Add(3*time.Second))
	if open() {
		t.Error("two lists without the service did not end it")
	}
}

func TestFailuresBackOffAndAreTold(t *testing.T) {
	b := newRecentWrites(time.Minute, time.Minute)
	d := desired(record.IntentApply)
	b.read("s", d, 1)
	fail := func(a act, definite bool) memory {
		b.change("s", func(n *recent) {
			n.failed(a, failure{message: "why", definite: definite}, now, time.Second, 5*time.Second)
		})
		return b.read("s", d, 1)
	}
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second} {
		m := fail(create, false)
		if !m.notBefore.Equal(now.Add(want)) || m.tried != create {
			t.Errorf("try %d: pause %v of %s, want %v", i+1, m.notBefore.Sub(now), m.tried, want)
		}
		if m.failure == nil || m.final != (i >= 2) {
			t.Errorf("try %d: told %v, as the outcome %v", i+1, m.failure, m.final)
		}
	}
	if m := fail(update, false); m.final || !m.notBefore.Equal(now.Add(time.Second)) {
		t.Error("another step inherits the failures of the first")
	}
	if m := fail(update, true); !m.final || !m.notBefore.Equal(now.Add(5*time.Second)) {
		t.Error("a final failure is not told at once")
	}
	if m := b.read("s", d, 2); m.failure != nil || !m.notBefore.IsZero() {
		t.Error("another desired record inherits failures")
	}
}

func TestForgetKeepsDoubts(t *testing.T) {
	b := newRecentWrites(time.Minute, time.Minute)
	b.change("gone", func(n *recent) { n.tries = 1 })
	b.change("doubtful", func(n *recent) { n.postAt = now })
	b.change("wanted", func(n *recent) { n.tries = 1 })
	b.forget(now.Add(time.Second), func(name string) bool { return name == "wanted" })
	if len(b.of) != 2 || b.of["gone"] != nil {
		t.Errorf("kept %v", b.of)
	}
	b.forget(now.Add(time.Hour), func(name string) bool { return name == "wanted" })
	if len(b.of) != 1 {
		t.Errorf("kept %v", b.of)
	}
}

func TestNextReport(t *testing.T) {
	d := desired(record.IntentApply)
	first := nextReport(nil, d, 7, "", finding{phase: record.PhasePrepared, vote: &record.Vote{Answer: "yes", Revision: 7, DelayS: 3}}, now)
	if first.BucketsMade == nil || !first.LastTransitionTime.Equal(now) {
		t.Errorf("first: %+v", first)
	}
	later := now.Add(time.Minute)
	again := nextReport(first, d, 7, "", finding{phase: record.PhasePrepared, vote: &record.Vote{Answer: "yes", Revision: 7, DelayS: 9}}, later)
	if again.Vote.DelayS != 3 || !again.LastTransitionTime.Equal(now) {
		t.Errorf("the same vote with another delay is no news: %+v", again)
	}
	done := nextReport(first, d, 8, "", finding{phase: record.PhaseReady, readBack: wanted, made: []string{"b", "a", "b"}}, later)
	if done.Vote == nil || done.BucketsMade[0] != "a" || len(done.BucketsMade) != 2 || !done.LastTransitionTime.Equal(later) {
		t.Errorf("ready: %+v", done)
	}
	drift := nextReport(done, d, 8, "", finding{phase: record.PhaseDrifted}, later)
	if drift.ReadBack != wanted || len(drift.BucketsMade) != 2 {
		t.Errorf("what is known of this generation is lost: %+v", drift)
	}
	d.Generation = 3
	if next := nextReport(done, d, 9, "", finding{phase: record.PhaseFailed}, later); next.Applied() != 2 || next.ReadBack != wanted || len(next.BucketsMade) != 2 {
		t.Errorf("the fingerprint is that of generation 2: %+v", next)
	}
}
