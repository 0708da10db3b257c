package view

import (
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// setObserved keeps a report. One that no syncer of ours would write counts as none:
// it decides nothing, and no answer shows it.
func (v *View) setObserved(n *Node, service string, kv store.KV, exists bool) {
	delete(n.Observed, service)
	o, ok := decode[record.Observed](v, kv, exists)
	if !ok {
		return
	}
	if err := plausible(o); err != nil {
		v.news.Corrupt = append(v.news.Corrupt, &store.CorruptError{Key: kv.Key, Err: err})
		return
	}
	n.Observed[service] = Versioned[record.Observed]{Rec: o, Rev: kv.ModRevision}
}

func plausible(o *record.Observed) error {
	phases := []record.Phase{
		record.PhasePrepared, record.PhaseRefused, record.PhaseReady, record.PhaseFailed, record.PhaseDrifted,
		record.PhaseHeld, record.PhaseWedged, record.PhaseDeleted, record.PhaseApplying, record.PhaseDeleting, record.PhasePending,
	}
	switch {
	case !slices.Contains(phases, o.Phase):
		return fmt.Errorf("no syncer reports phase %q", o.Phase)
	case o.ObservedGeneration < 0 || o.DesiredRevision < 0 || o.AppliedGeneration < 0:
		return fmt.Errorf("generation %d and revision %d cannot be negative", o.ObservedGeneration, o.DesiredRevision)
	case o.Vote != nil && o.Vote.Answer != record.VoteYes && o.Vote.Answer != record.VoteNo:
		return fmt.Errorf("a vote is yes or no, and not %q", o.Vote.Answer)
	case o.Vote != nil && o.Vote.DelayS < 0:
		return fmt.Errorf("a write queue cannot be %d s long", o.Vote.DelayS)
	}
	return nil
}
