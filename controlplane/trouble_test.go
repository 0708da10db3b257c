package controlplane

import (
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

// unreachable is a cluster whose OSCAR does not answer; away for a while.
func (s situation) unreachable(i int, away bool) situation {
	s.replicas[i].trouble = trouble{reason: record.ReasonOscarUnreachable, message: "the cluster's OSCAR does not answer: it is silent", away: away}
	return s
}

// TestARefusalGivesNoAdviceThatCannotHelp: best effort helps when somebody is left.
func TestARefusalGivesNoAdviceThatCannotHelp(t *testing.T) {
	base := func() situation { return fixture(2, record.PhasePreparing, record.IntentPrepare) }
	late := func(s situation) situation { s.now = today.Add(time.Hour); return s }
	best := func(s situation) situation { s.fed.Deployment = oscar.DeploymentBestEffort; return s }
	dead := because(record.ReasonOscarUnreachable)
	for name, tt := range map[string]struct {
		s       situation
		reason  record.Reason
		advises bool
	}{
		"one is silent, the other is ready":       {late(base().votes(0, record.VoteYes, 0).report(1, record.PhasePending, dead)), record.ReasonOscarUnreachable, true},
		"one is dead, the other has yet to vote":  {base().votes(1, record.VoteNo, 0, dead), record.ReasonOscarUnreachable, true},
		"one is dead, the other is silent":        {base().votes(1, record.VoteNo, 0, dead).report(0, record.PhasePending, dead), record.ReasonOscarUnreachable, false},
		"both are silent":                         {late(base().report(0, record.PhasePending, dead).report(1, record.PhasePending, dead)), record.ReasonOscarUnreachable, false},
		"only the clusters say so":                {late(base().votes(0, record.VoteYes, 0).unreachable(1, false)), record.ReasonOscarUnreachable, true},
		"nobody says why":                         {late(base()), record.ReasonNoVote, false},
		"it is best effort already":               {best(late(base().report(0, record.PhasePending, dead).report(1, record.PhasePending, dead))), record.ReasonOscarUnreachable, false},
		"the name is taken, which does not pass":  {base().votes(0, record.VoteYes, 0).votes(1, record.VoteNo, 0, because(record.ReasonNameTaken)), record.ReasonNameTaken, false},
		"one says it itself, its cluster as well": {late(base().votes(0, record.VoteYes, 0).report(1, record.PhasePending, dead).unreachable(1, true)), record.ReasonOscarUnreachable, true},
	} {
		d := decide(tt.s, policy)
		if d.name != "abort" {
			t.Errorf("%s: step %q", name, d.name)
			continue
		}
		f := d.fed.Members[1].Cause
		if f == nil || f.Reason != tt.reason || strings.Contains(f.Message, "best-effort") != tt.advises {
			t.Errorf("%s: %+v", name, f)
		}
		if tt.reason == record.ReasonOscarUnreachable && Code(d.fed.Code) != CodeUnavailable {
			t.Errorf("%s: code %s", name, d.fed.Code)
		}
	}
}

// TestATombstoneIsNotWaitedForWhereNothingCanBeDone: no syncer, one that cannot reach its
// OSCAR for long, or a pause. One that cannot for a moment is waited for.
func TestATombstoneIsNotWaitedForWhereNothingCanBeDone(t *testing.T) {
	base := func() situation {
		return fixture(2, record.PhaseRollingBack, record.IntentDelete).report(0, record.PhaseDeleted)
	}
	paused := base()
	paused.replicas[1].stopped = true
	gone := base()
	gone.replicas[1].alive = false
	for name, tt := range map[string]struct {
		s    situation
		step string
	}{
		"at work":            {base(), ""},
		"silent for long":    {base().unreachable(1, true), "rolled_back"},
		"silent for a while": {base().unreachable(1, false), ""},
		"paused":             {paused, "rolled_back"},
		"no syncer":          {gone, "rolled_back"},
	} {
		d := decide(tt.s, policy)
		if d.name != tt.step {
			t.Errorf("%s: step %q, want %q", name, d.name, tt.step)
		}
		if d.name == "rolled_back" && (!d.dropName || d.fed.Members[1].Rollback.State != record.RollbackPending || len(d.remove) != 1) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
