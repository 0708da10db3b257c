package controlplane_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/store/record"
)

// TestAJobGoesItsWay from acceptance to its end, and what it costs is counted.
func TestAJobGoesItsWay(t *testing.T) {
	w := newJobWorld(t)
	began := w.revision()
	j := w.submit()
	p, assigned := w.at(j.ID)
	if got := p.event(j.ID, 1); got != secretEvent {
		t.Errorf("the cluster reads %q", got)
	}
	a := p.standing()
	if len(a) != 1 || a[0].Name != record.JobName(assigned.Place.ServiceName, j.ID, 1) || a[0].UID != assigned.Place.UID {
		t.Errorf("%+v for %+v", a, assigned.Place)
	}
	for _, state := range whole() {
		p.says(j.ID, 1, state)
	}
	end := w.is(j.ID, record.JobSucceeded)
	w.eventually(func() bool { return len(w.leaves(j.ID)) == 2 })
	if end.StartedAt == nil || end.EndedAt == nil || end.Attempt != 1 {
		t.Errorf("%+v", end)
	}
	if left := strings.Join(w.leaves(j.ID), " "); left != record.DecisionKey(j.ID, 1)+" "+record.JobKey(j.ID) {
		t.Errorf("left: %s", left)
	}
	if len(w.keys(record.ReservedPrefix)) > 0 {
		t.Errorf("still promised: %v", w.keys(record.ReservedPrefix))
	}
	// Accepted, assigned, ended, and perhaps seen running; the syncer's five.
	if cost := w.revision() - began; cost < 8 || cost > 9 {
		t.Errorf("it cost %d revisions", cost)
	}
	_, why, err := w.ExplainJob(t.Context(), admin, j.ID)
	if err != nil || len(why) != 1 || why[0].Decision.Chosen == "" || why[0].Attempt != 1 {
		t.Errorf("%+v %v", why, err)
	}
}

// TestIdleJobsCostNothing while nobody can take them.
func TestIdleJobsCostNothing(t *testing.T) {
	w := newJobWorld(t)
	for _, p := range w.clusters {
		p.has(100)
	}
	j := w.submit()
	stuck := w.becomes(j.ID, func(j *controlplane.Job) bool { return j.Reason == record.JobNoCandidate })
	began := w.revision()
	w.clusters["b"].has(200) // a reason to look again
	time.Sleep(0)
	w.clusters["b"].has(4000)
	_, assigned := w.at(j.ID)
	if stuck.State != record.JobQueued || assigned.Place.ClusterID != "b" {
		t.Errorf("%+v then %+v", stuck, assigned)
	}
	if cost := w.revision() - began; cost != 3 {
		t.Errorf("it cost %d revisions", cost)
	}
}
