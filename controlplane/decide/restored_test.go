package decide

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// TestNoClockOfALostHistoryRollsBack: a creation that was under way when the backup was made
// may be in use since.
func TestNoClockOfALostHistoryRollsBack(t *testing.T) {
	later := func(s view.Situation) view.Situation { s.Now, s.Epoch = today.Add(30*24*time.Hour), "e1"; return s }
	compared := func(s view.Situation, n int) view.Situation {
		for i := range n {
			s.Replicas[i].Compared = true
		}
		return s
	}
	asked := func(s view.Situation) view.Situation { s.Fed.Asked = "e1"; return s }
	preparing := func() view.Situation { return later(fixture(2, record.PhasePreparing, record.IntentPrepare)) }
	applying := func() view.Situation { return later(fixture(2, record.PhaseApplying, record.IntentApply)) }
	changing := later(fixture(2, record.PhaseReady, record.IntentApply))
	changing.Fed.Change = &record.Change{Members: changing.Fed.Members, Deadline: record.At(today)}
	anew := changing
	anew.Fed.Change = &record.Change{Members: changing.Fed.Members, Deadline: record.At(anew.Now.Add(time.Minute)), Epoch: "e1"}

	for name, tt := range map[string]struct {
		s    view.Situation
		step Step
	}{
		"preparing, nobody has compared":            {preparing(), ""},
		"preparing, all voted, nobody has compared": {votes(votes(preparing(), 0, record.VoteYes, 0), 1, record.VoteYes, 0), ""},
		"preparing, one is away":                    {compared(preparing(), 1), ""},
		"preparing, all have compared":              {compared(preparing(), 2), "ask_again"},
		"preparing, asked again, late":              {asked(compared(preparing(), 2)), "abort"},
		"preparing, asked again, all yes":           {votes(votes(asked(compared(preparing(), 2)), 0, record.VoteYes, 0), 1, record.VoteYes, 0), "commit"},
		"preparing, asked again, one is ahead":      {report(votes(asked(compared(preparing(), 2)), 0, record.VoteYes, 0), 1, record.PhaseHeld, because(record.ReasonAheadOfDesired)), "abort"},
		"applying, late":                            {report(applying(), 0, record.PhaseReady), ""},
		"applying, all ready":                       {report(report(applying(), 0, record.PhaseReady), 1, record.PhaseReady), "accept"},
		"applying, one is ahead":                    {report(report(applying(), 0, record.PhaseReady), 1, record.PhaseHeld), "accept"},
		"applying, one failed":                      {report(report(applying(), 0, record.PhaseReady), 1, record.PhaseFailed), "accept"},
		"a change that waited for votes":            {changing, "refuse_change"},
		"a change of this epoch":                    {anew, "change"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(tt.s, policy)
			if d.Step != tt.step {
				t.Fatalf("step %q, want %q", d.Step, tt.step)
			}
			for _, p := range d.Put {
				if p.Rec.Tombstone() {
					t.Error("a tombstone was written")
				}
			}
			if d.Step == "ask_again" && (d.Fed.Asked != "e1" || d.Fed.Epoch != "" || len(d.Put) != 2 || !d.Put[0].Rec.Deadline.After(tt.s.Now.Add(-time.Second))) {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestAChangeInANewEpochRemembersWhereTheOldOneWasLeft(t *testing.T) {
	s := fixture(2, record.PhaseReady, record.IntentApply)
	s.Epoch, s.Fed.Generation = "e1", 5
	for i := range s.Replicas {
		s.Replicas[i].Desired.Generation = 5
	}
	s.Replicas[1].Desired.Past = []record.Branch{{Epoch: "e0", Generation: 2}}
	next := s.Fed
	next.Epoch, next.Generation = "e1", 6
	d := ApplyChange(s, NewProposal(next, nil))
	for i, p := range d.Put {
		covers := p.Rec.Covers("e1", 6) && p.Rec.Covers("", 5) && !p.Rec.Covers("", 6) && !p.Rec.Covers("e2", 1)
		if p.Rec.Epoch != "e1" || p.Rec.Generation != 6 || !covers || p.Rec.Covers("e0", 2) != (i == 1) {
			t.Errorf("%+v", p.Rec)
		}
	}
}
