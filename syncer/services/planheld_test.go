package services

import (
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// TestWhatIsAheadOfARestoredStoreIsHeld: the epoch tells a generation of a lost
// history from the one that was given the same number since.
func TestWhatIsAheadOfARestoredStoreIsHeld(t *testing.T) {
	in := func(epoch string, past ...record.Branch) func(*record.Desired) {
		return func(d *record.Desired) { d.Epoch, d.Past = epoch, past }
	}
	stands := func(epoch string, generation int64) local {
		return mine(func(l *local) { l.epoch, l.generation, l.hash = epoch, generation, changed })
	}
	reported := func(epoch string, change ...func(*record.Observed)) *record.Observed {
		return ready(append(change, func(o *record.Observed) { o.Epoch = epoch })...)
	}
	heldAs := func(kind record.HeldKind) func(*record.Observed) {
		return func(o *record.Observed) { o.Phase, o.Held, o.ReadBack = record.PhaseHeld, &record.Held{Kind: kind}, "" }
	}
	apply, remove, prepare := record.IntentApply, record.IntentDelete, record.IntentPrepare
	again := func(d *record.Desired) { d.Again = true }
	released := func(d *record.Desired) { d.Keep = record.KeepRelease }
	e1 := session.Standing{Epoch: "e1"}
	for _, tt := range []struct {
		name string
		s    situation
		want act
		held record.HeldKind
	}{
		{"a later generation", situation{desired: desired(apply), local: stands("", 3)}, report, record.HeldAhead},
		{"the desired one", situation{desired: desired(apply), observed: reported(""), local: mine()}, report, ""},
		{"the same number, of the lost history", situation{Standing: e1, desired: desired(apply, in("e1", record.Branch{Generation: 1})), local: stands("", 2)}, report, record.HeldAhead},
		{"one before the backup", situation{Standing: e1, desired: desired(apply, in("e1", record.Branch{Generation: 1})), local: stands("", 1)}, update, ""},
		{"of an epoch that nobody knows", situation{Standing: e1, desired: desired(apply, in("e1")), local: stands("e7", 1)}, report, record.HeldAhead},
		{"given up by a person", situation{Standing: e1, desired: desired(apply, in("e1", record.Branch{Generation: 7})), local: stands("", 7)}, update, ""},
		{"later than what was given up", situation{Standing: e1, desired: desired(apply, in("e1", record.Branch{Generation: 7})), local: stands("", 8)}, report, record.HeldAhead},
		{"a tombstone before the backup", situation{Standing: e1, desired: desired(remove), local: stands("", 2)}, detach, ""},
		{"a tombstone, and a later generation", situation{Standing: e1, desired: desired(remove), local: stands("", 3)}, report, record.HeldAhead},
		{"a tombstone of a number that was given twice", situation{Standing: e1, desired: desired(remove, in("e1", record.Branch{Generation: 1})), local: stands("", 2)}, report, record.HeldAhead},
		{"a tombstone, and the marks are dropped", situation{Standing: e1, desired: desired(remove, in("e1")), observed: reported("e1"), local: stands("", 0)}, detach, ""},
		{"a tombstone, and the marks are dropped before a report", situation{Standing: e1, desired: desired(remove, in("e1")), local: stands("", 0)}, detach, ""},
		{"to be released", situation{Standing: e1, desired: desired(remove, in("e1"), released), observed: reported("e1"), local: mine(func(l *local) { l.epoch, l.marked = "e1", true })}, release, ""},
		{"released", situation{Standing: e1, desired: desired(remove, in("e1"), released), observed: reported("e1"), local: stands("", 0)}, acknowledge, ""},
		{"released, and was held for it", situation{Standing: e1, desired: desired(remove, in("e1"), released), observed: reported("e1", heldAs(record.HeldAhead)), local: stands("", 0)}, acknowledge, ""},
		{"a prepare, and it stands", situation{Standing: e1, desired: desired(prepare), local: stands("", 2)}, castVote, ""},
		{"a prepare, and a later one stands", situation{Standing: e1, desired: desired(prepare), local: stands("", 3)}, report, record.HeldAhead},

		{"gone, not seen since", situation{Standing: e1, desired: desired(apply), observed: reported("")}, report, record.HeldMissing},
		{"gone, and stays held", situation{Standing: e1, desired: desired(apply), observed: reported("e1", heldAs(record.HeldMissing))}, report, record.HeldMissing},
		{"was ahead, and is gone", situation{Standing: e1, desired: desired(apply), observed: reported("e1", heldAs(record.HeldAhead))}, report, record.HeldMissing},
		{"gone, and changed since by others", situation{Standing: e1, desired: desired(apply, in("e1", record.Branch{Generation: 1})), observed: reported("", func(o *record.Observed) { o.ObservedGeneration = 1 })}, report, record.HeldMissing},
		{"gone after it was seen", situation{Standing: e1, desired: desired(apply), observed: reported("e1")}, create, ""},
		{"gone, ordered again", situation{Standing: e1, desired: desired(apply, in("e1"), again), observed: reported("e1", heldAs(record.HeldMissing))}, create, ""},
		{"never reported, added before the backup", situation{Standing: e1, desired: desired(apply)}, report, record.HeldMissing},
		{"never reported, a creation", situation{Standing: e1, desired: desired(apply, func(d *record.Desired) { d.Generation = 1 })}, create, ""},
		{"gone in the first epoch", situation{desired: desired(apply), observed: reported("")}, create, ""},

		{"marks dropped, not seen since", situation{Standing: e1, desired: desired(apply), observed: reported(""), local: stands("", 0)}, report, record.HeldAhead},
		{"marks dropped, and stays held", situation{Standing: e1, desired: desired(apply), observed: reported("e1", heldAs(record.HeldAhead)), local: stands("", 0)}, report, record.HeldAhead},
		{"marks dropped after it was seen", situation{Standing: e1, desired: desired(apply), observed: reported("e1"), local: stands("", 0)}, update, ""},

		{"etcd went back and has no new epoch", situation{Standing: session.Standing{Restored: true}, desired: desired(apply), observed: reported("")}, rest, ""},
		{"etcd went back: no order is carried out", situation{Standing: session.Standing{Restored: true}, desired: desired(remove), local: mine()}, rest, ""},
	} {
		tt.s.now, tt.s.revision, tt.s.fresh = now, revision, true
		d := plan(tt.s)
		if d.act != tt.want || (d.held == nil) != (tt.held == "") || d.held != nil && d.held.Kind != tt.held {
			t.Errorf("%s: %s, held %+v (%s); want %s, held %q", tt.name, d.act, d.held, d.message, tt.want, tt.held)
		}
	}
}
