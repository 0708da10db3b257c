package controlplane

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// TestNoClockOfALostHistoryRollsBack: what was under way when the backup was made may
// be in use since.
func TestNoClockOfALostHistoryRollsBack(t *testing.T) {
	later := func(s situation) situation { s.now, s.epoch = today.Add(30*24*time.Hour), "e1"; return s }
	compared := func(s situation, n int) situation {
		for i := range n {
			s.replicas[i].compared = true
		}
		return s
	}
	asked := func(s situation) situation { s.fed.Asked = "e1"; return s }
	preparing := func() situation { return later(fixture(2, record.PhasePreparing, record.IntentPrepare)) }
	applying := func() situation { return later(fixture(2, record.PhaseApplying, record.IntentApply)) }
	changing := later(fixture(2, record.PhaseReady, record.IntentApply))
	changing.fed.Change = &record.Change{Members: changing.fed.Members, Deadline: record.At(today)}
	anew := changing
	anew.fed.Change = &record.Change{Members: changing.fed.Members, Deadline: record.At(anew.now.Add(time.Minute)), Epoch: "e1"}

	for name, tt := range map[string]struct {
		s    situation
		step string
	}{
		"preparing, nobody has compared":            {preparing(), ""},
		"preparing, all voted, nobody has compared": {preparing().votes(0, record.VoteYes, 0).votes(1, record.VoteYes, 0), ""},
		"preparing, one is away":                    {compared(preparing(), 1), ""},
		"preparing, all have compared":              {compared(preparing(), 2), "ask_again"},
		"preparing, asked again, late":              {asked(compared(preparing(), 2)), "abort"},
		"preparing, asked again, all yes":           {asked(compared(preparing(), 2)).votes(0, record.VoteYes, 0).votes(1, record.VoteYes, 0), "commit"},
		"preparing, asked again, one is ahead":      {asked(compared(preparing(), 2)).votes(0, record.VoteYes, 0).report(1, record.PhaseHeld, because(record.ReasonAheadOfDesired)), "abort"},
		"applying, late":                            {applying().report(0, record.PhaseReady), ""},
		"applying, all ready":                       {applying().report(0, record.PhaseReady).report(1, record.PhaseReady), "accept"},
		"applying, one is ahead":                    {applying().report(0, record.PhaseReady).report(1, record.PhaseHeld), "accept"},
		"applying, one failed":                      {applying().report(0, record.PhaseReady).report(1, record.PhaseFailed), "accept"},
		"a change that waited for votes":            {changing, "refuse_change"},
		"a change of this epoch":                    {anew, "change"},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(tt.s, policy)
			if d.name != tt.step {
				t.Fatalf("step %q, want %q", d.name, tt.step)
			}
			for _, p := range d.put {
				if p.rec.Tombstone() {
					t.Error("a tombstone was written")
				}
			}
			if d.name == "ask_again" && (d.fed.Asked != "e1" || d.fed.Epoch != "" || len(d.put) != 2 || !d.put[0].rec.Deadline.After(tt.s.now.Add(-time.Second))) {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestAChangeInANewEpochRemembersWhereTheOldOneWasLeft(t *testing.T) {
	s := fixture(2, record.PhaseReady, record.IntentApply)
	s.epoch, s.fed.Generation = "e1", 5
	for i := range s.replicas {
		s.replicas[i].desired.Generation = 5
	}
	s.replicas[1].desired.Past = []record.Branch{{Epoch: "e0", Generation: 2}}
	next := s.fed
	next.Epoch, next.Generation = "e1", 6
	d := applyChange(s, newProposal(next, nil))
	for i, p := range d.put {
		covers := p.rec.Covers("e1", 6) && p.rec.Covers("", 5) && !p.rec.Covers("", 6) && !p.rec.Covers("e2", 1)
		if p.rec.Epoch != "e1" || p.rec.Generation != 6 || !covers || p.rec.Covers("e0", 2) != (i == 1) {
			t.Errorf("%+v", p.rec)
		}
	}
}
