package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// unreachable is a cluster whose OSCAR does not answer; away for a while.
func unreachable(s view.Situation, i int, away bool) view.Situation {
	s.Replicas[i].Trouble = view.Trouble{Reason: record.ReasonOscarUnreachable, Message: "the cluster's OSCAR does not answer: it is silent", Away: away}
	return s
}

// TestARefusalGivesNoAdviceThatCannotHelp: best effort helps when somebody is left.
func TestARefusalGivesNoAdviceThatCannotHelp(t *testing.T) {
	base := func() view.Situation { return fixture(2, record.PhasePreparing, record.IntentPrepare) }
	late := func(s view.Situation) view.Situation { s.Now = today.Add(time.Hour); return s }
	best := func(s view.Situation) view.Situation { s.Fed.Deployment = oscar.DeploymentBestEffort; return s }
	dead := because(record.ReasonOscarUnreachable)
	for name, tt := range map[string]struct {
		s       view.Situation
		reason  record.Reason
		advises bool
	}{
		"one is silent, the other is ready":       {late(report(votes(base(), 0, record.VoteYes, 0), 1, record.PhasePending, dead)), record.ReasonOscarUnreachable, true},
		"one is dead, the other has yet to vote":  {votes(base(), 1, record.VoteNo, 0, dead), record.ReasonOscarUnreachable, true},
		"one is dead, the other is silent":        {report(votes(base(), 1, record.VoteNo, 0, dead), 0, record.PhasePending, dead), record.ReasonOscarUnreachable, false},
		"both are silent":                         {late(report(report(base(), 0, record.PhasePending, dead), 1, record.PhasePending, dead)), record.ReasonOscarUnreachable, false},
		"only the clusters say so":                {late(unreachable(votes(base(), 0, record.VoteYes, 0), 1, false)), record.ReasonOscarUnreachable, true},
		"nobody says why":                         {late(base()), record.ReasonNoVote, false},
		"it is best effort already":               {best(late(report(report(base(), 0, record.PhasePending, dead), 1, record.PhasePending, dead))), record.ReasonOscarUnreachable, false},
		"the name is taken, which does not pass":  {votes(votes(base(), 0, record.VoteYes, 0), 1, record.VoteNo, 0, because(record.ReasonNameTaken)), record.ReasonNameTaken, false},
		"one says it itself, its cluster as well": {late(unreachable(report(votes(base(), 0, record.VoteYes, 0), 1, record.PhasePending, dead), 1, true)), record.ReasonOscarUnreachable, true},
	} {
		d := Decide(tt.s, policy)
		if d.Step != "abort" {
			t.Errorf("%s: step %q", name, d.Step)
			continue
		}
		f := d.Fed.Members[1].Cause
		if f == nil || f.Reason != tt.reason || strings.Contains(f.Message, "best-effort") != tt.advises {
			t.Errorf("%s: %+v", name, f)
		}
		if tt.reason == record.ReasonOscarUnreachable && fault.Code(d.Fed.Code) != fault.CodeUnavailable {
			t.Errorf("%s: code %s", name, d.Fed.Code)
		}
	}
}

// TestATombstoneIsNotWaitedForWhereNothingCanBeDone: no syncer, one that cannot reach its
// OSCAR for long, or a pause. One that cannot for a moment is waited for.
func TestATombstoneIsNotWaitedForWhereNothingCanBeDone(t *testing.T) {
	base := func() view.Situation {
		return report(fixture(2, record.PhaseRollingBack, record.IntentDelete), 0, record.PhaseDeleted)
	}
	paused := base()
	paused.Replicas[1].Stopped = true
	gone := base()
	gone.Replicas[1].Alive = false
	for name, tt := range map[string]struct {
		s    view.Situation
		step Step
	}{
		"at work":            {base(), ""},
		"silent for long":    {unreachable(base(), 1, true), "rolled_back"},
		"silent for a while": {unreachable(base(), 1, false), ""},
		"paused":             {paused, "rolled_back"},
		"no syncer":          {gone, "rolled_back"},
	} {
		d := Decide(tt.s, policy)
		if d.Step != tt.step {
			t.Errorf("%s: step %q, want %q", name, d.Step, tt.step)
		}
		if d.Step == "rolled_back" && (!d.DropName || d.Fed.Members[1].Rollback.State != record.RollbackPending || len(d.Remove) != 1) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
