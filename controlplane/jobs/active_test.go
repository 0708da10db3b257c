package jobs

import (
	"fmt"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store/record"
)

// scanOf is the round of a dispatcher over what is active now.
func scanOf(d *dispatcher, v *view.View, now time.Time) *round {
	need := &Needs{generation: 1, request: delegation.Request{CPU: 500, Memory: 256 << 20}}
	p := newRound(&clock.FirstSeen{}, now, Weights{}, func(*record.Federation) *Needs { return need })
	p.scope, p.blocked = d.scope(now), d.blocked
	p.fill(v)
	d.scanned(p)
	return p
}

// A federation whose jobs wait is looked at again when something changes that it waits for, and not
// before.
func TestAScanLooksAtWhatAChangeConcerns(t *testing.T) {
	const clusters, federations = 10, 30 // each federation is on three clusters that follow each other
	v := queues{clusters: clusters, federations: federations, each: 4, free: 100}.view(t)
	d, now := newDispatcher(), time.Now()
	if p := scanOf(d, v, now); p.classes != federations || len(p.blocked) != federations {
		t.Fatalf("the first scan looked at %d classes, and %d federations are blocked", p.classes, len(p.blocked))
	}
	uid := func(f int) string { return fmt.Sprintf("federation-%06d", f) }
	for name, tc := range map[string]struct {
		news view.Changes
		want int
	}{
		"nothing":             {view.Changes{Capacity: true}, 0},
		"a cluster with room": {view.Changes{Freed: map[string]bool{"cluster-0004": true}}, 9},
		"a cluster's session": {view.Changes{Clusters: map[string]bool{"cluster-0004": true, "cluster-0005": true}}, 12},
		"a federation":        {view.Changes{Federations: map[string]bool{uid(3): true, "another": true}}, 1},
		"a job":               {view.Changes{Jobs: map[string]bool{"job-000001-000007": true, "job-000002-000007": true, "another": true}}, 1},
		"the epoch":           {view.Changes{Meta: &record.Meta{}}, federations},
		"the fence":           {view.Changes{Clusters: map[string]bool{"": true}}, federations},
	} {
		d.activate(v, &tc.news)
		if p := scanOf(d, v, now); p.classes != tc.want {
			t.Errorf("%s: %d classes, not %d", name, p.classes, tc.want)
		}
		if len(d.blocked) != federations {
			t.Errorf("%s: %d federations are blocked, not all", name, len(d.blocked))
		}
	}
	d.due[uid(5)] = now.Add(time.Second)
	if p := scanOf(d, v, now); p.classes != 0 {
		t.Errorf("%d classes before a pause was over", p.classes)
	}
	if p := scanOf(d, v, now.Add(time.Second)); p.classes != 1 {
		t.Errorf("%d classes after a pause, not 1", p.classes)
	}
	d.scannedAll = d.scannedAll.Add(-assignTick)
	if p := scanOf(d, v, now); p.classes != federations {
		t.Errorf("%d classes in the scan of all", p.classes)
	}
}

// What one transaction cannot hold is looked at by the next scan, without a change.
func TestWhatATransactionCannotHoldStaysActive(t *testing.T) {
	v := queues{clusters: 10, federations: 60, each: 4, free: 64000}.view(t)
	d := newDispatcher()
	p := scanOf(d, v, time.Now())
	if len(p.steps) != assignAtOnce || !p.more {
		t.Fatalf("%d assignments, more %v", len(p.steps), p.more)
	}
	assigned := map[string]bool{}
	for _, s := range p.steps {
		assigned[s.was.Federation] = true
	}
	for i := range 60 {
		if uid := fmt.Sprintf("federation-%06d", i); !p.left[uid] && !assigned[uid] {
			t.Errorf("%s is neither assigned nor left", uid)
		}
	}
}
