package events

import (
	"fmt"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

var now = time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC)

// TestHundredThousandEventsAreBounded: in total and for each account, and what was forgotten is
// known.
func TestHundredThousandEventsAreBounded(t *testing.T) {
	l := newLog(now, 1)
	add := func(owner string, revision int) {
		l.add(&happened{SystemEvent: v1.SystemEvent{Owner: owner, Revision: int64(revision), At: v1.Time{Time: now.Add(time.Duration(revision) * time.Second)}, Message: "it happened"}})
	}
	add("quiet", 2)
	for i := range 50_000 {
		add("loud", 3+i)
	}
	v := view.Of()
	if n := l.accounts["loud"].elements.Len(); n != maxAccountEvents || l.all.Len() != maxAccountEvents+1 || l.floor != 1 {
		t.Fatalf("%d of one account, %d in all, forgotten up to %d", n, l.all.Len(), l.floor)
	}
	if l.forgot(v, caller("quiet"), 2) || !l.forgot(v, caller("loud"), 2) || l.forgot(v, caller("loud"), 50_000) {
		t.Error("one account makes another one forget, or what was forgotten is not known")
	}
	for i := range 50_000 {
		add(fmt.Sprint("user", i), 60_000+i)
	}
	if l.all.Len() > maxEvents || l.bytes > maxBytes || len(l.accounts) > maxEvents || !l.forgot(v, caller("quiet"), 2) {
		t.Errorf("%d events, %d bytes, %d accounts", l.all.Len(), l.bytes, len(l.accounts))
	}
	sum, each := 0, 0
	for _, a := range l.accounts {
		sum, each = sum+a.bytes, each+a.elements.Len()
	}
	if sum != l.bytes || each != l.all.Len() {
		t.Errorf("accounts have %d events of %d bytes, all %d of %d", each, sum, l.all.Len(), l.bytes)
	}
}

// TestReportsBecomeEvents: each transition of a replica that a person wants to know of, and no
// other.
func TestReportsBecomeEvents(t *testing.T) {
	report := func(phase record.Phase, reason record.Reason, second int) *record.Observed {
		return &record.Observed{Phase: phase, Reason: reason, ObservedGeneration: 1, LastTransitionTime: record.At(now.Add(time.Duration(second) * time.Second))}
	}
	ready, drifted := record.PhaseReady, record.PhaseDrifted
	for name, tt := range map[string]struct {
		old, now *record.Observed
		want     string
	}{
		"the first report":              {&record.Observed{}, report(ready, "Applied", 1), ""},
		"the same again":                {report(ready, "Applied", 1), report(ready, "Applied", 1), ""},
		"drift":                         {report(ready, "Applied", 1), report(drifted, "Drifted", 2), "DriftFound"},
		"drift that cannot be repaired": {report(drifted, "Drifted", 2), report(drifted, "DriftUnfixable", 2), "DriftFound"},
		"repair":                        {report(drifted, "Drifted", 2), report(ready, "Applied", 3), "DriftRepaired"},
		"repair that was over at once":  {report(ready, "Applied", 1), report(ready, "Applied", 3), "DriftRepaired"},
		"failure":                       {report(ready, "Applied", 1), report(record.PhaseFailed, "UpdateFailed", 2), "ReplicaFailed"},
		"held":                          {report(ready, "Applied", 1), report(record.PhaseHeld, "AheadOfDesired", 2), "ReplicaHeld"},
		"after a failure":               {report(record.PhaseFailed, "UpdateFailed", 2), report(ready, "Applied", 3), "ReplicaReady"},
	} {
		if got, _ := transition(tt.old, tt.now); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func caller(subject string) identity.Caller { return identity.Caller{Subject: subject} }

// TestWhoCouldSeeEventsIsBounded: the names of those who could see a federation count, once for all
// events that share them.
func TestWhoCouldSeeEventsIsBounded(t *testing.T) {
	l := newLog(now, 1)
	many := make([]string, 999)
	for i := range many {
		many[i] = fmt.Sprintf("user-%0100d", i)
	}
	users := func(first string) []string { return append([]string{first}, many...) }
	add := func(owner, federation string, allowed []string) {
		l.add(&happened{SystemEvent: v1.SystemEvent{Owner: owner, Federation: federation, Message: "it happened"}, allowed: allowed})
	}
	for range maxAccountEvents { // each of a record that was decoded anew
		add("honest", "one", users("a"))
		add("honest", "two", users("b"))
	}
	if n := l.accounts["honest"].elements.Len(); n != maxAccountEvents {
		t.Errorf("names that are the same make it forget: %d events are left", n)
	}
	for i := range 500 {
		add("hostile", "one", users(fmt.Sprint(i)))
	}
	kept := map[string]map[*string]int{}
	for e := l.all.Front(); e != nil; e = e.Next() {
		h := e.Value.(*happened)
		if kept[h.Owner] == nil {
			kept[h.Owner] = map[*string]int{}
		}
		size := 0
		for _, user := range h.allowed {
			size += len(user)
		}
		kept[h.Owner][&h.allowed[0]] = size
	}
	for owner, lists := range kept {
		bytes := 0
		for _, size := range lists {
			bytes += size
		}
		if bytes > maxAccountBytes {
			t.Errorf("events of %s keep %d bytes of names in %d lists", owner, bytes, len(lists))
		}
	}
	for i := range maxAccountEvents {
		add("hostile", fmt.Sprint(i), nil)
		add("honest", "three", nil)
	}
	for owner, a := range l.accounts {
		if len(a.readers) > 0 {
			t.Errorf("%d lists of %s are counted, and no event has them", len(a.readers), owner)
		}
	}
}

// TestAnEventSaysWhyAJobIsParked: one that no member may take was refused by none.
func TestAnEventSaysWhyAJobIsParked(t *testing.T) {
	for reason, want := range map[record.JobReason]string{
		record.JobTooManyAttempts: "every attempt of the job was refused: why",
		record.JobServiceGone:     "no member takes the job any more: why",
	} {
		d := derivation{v: view.Of(), now: now}
		d.job(view.JobMove{Job: &record.Job{Job: "j", Reason: reason, Message: "why"}, From: record.JobQueued, To: record.JobParked})
		if len(d.out) != 1 || d.out[0].Message != want {
			t.Errorf("%s: %+v", reason, d.out)
		}
	}
}
