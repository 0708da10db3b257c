package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// timeline is one creation as the observer saw it.
type timeline struct {
	// accepted is transaction A, decided B, applied the last report of a replica,
	// ready the transaction after it.
	accepted, decided, applied, ready time.Time
	// staged are the records that A refers to, by their transactions; a and b what A
	// and B wrote.
	staged [][]seen
	a, b   []seen
	// vote and report are the bytes of one of each.
	vote, report int
	// revisions besides those of the staged records.
	revisions int
}

// watchCreate follows one creation, the only one under way, to its end.
func (o *observer) watchCreate(ctx context.Context) (*timeline, error) {
	t := &timeline{}
	byRevision := map[int64][]seen{}
	var order []int64
	err := o.follow(ctx, func(e seen) bool {
		if byRevision[e.rev] == nil {
			order = append(order, e.rev)
		}
		byRevision[e.rev] = append(byRevision[e.rev], e)
		switch record.ParseKey(e.key).Kind {
		case record.KindFederation:
			var fed record.Federation
			if json.Unmarshal(e.value, &fed) != nil {
				return false
			}
			switch fed.Phase {
			case record.PhasePreparing:
				t.accepted = e.at
			case record.PhaseApplying:
				t.decided = e.at
			case record.PhaseReady:
				t.ready = e.at
				return true
			}
		case record.KindObservedService:
			t.applied = e.at
			if t.decided.IsZero() {
				t.vote = len(e.value)
			} else {
				t.report = len(e.value)
			}
		}
		return false
	})
	for _, rev := range order {
		events := byRevision[rev]
		switch {
		case stagedOnly(events):
			t.staged = append(t.staged, events)
			continue
		case events[0].at.Equal(t.accepted) && t.a == nil:
			t.a = events
		case t.b == nil && t.writes(events, record.PhaseApplying):
			t.b = events
		}
		t.revisions++
	}
	return t, err
}

// stagedOnly says whether a transaction wrote only what another one refers to.
func stagedOnly(events []seen) bool {
	for _, e := range events {
		switch record.ParseKey(e.key).Kind {
		case record.KindSpec, record.KindPart, record.KindHistory, record.KindSecrets:
		default:
			return false
		}
	}
	return true
}

func (t *timeline) writes(events []seen, phase record.Phase) bool {
	for _, e := range events {
		if record.ParseKey(e.key).Kind == record.KindFederation && strings.Contains(string(e.value), `"phase":"`+string(phase)+`"`) {
			return true
		}
	}
	return false
}

// revisionsUntilQuiet counts the transactions since forget, but for those that
// only stage, until nothing more comes.
func (o *observer) revisionsUntilQuiet(ctx context.Context) (int, error) {
	if _, err := o.settled(ctx, time.Second); err != nil {
		return 0, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	byRevision := map[int64][]seen{}
	for _, e := range o.events {
		byRevision[e.rev] = append(byRevision[e.rev], e)
	}
	n := 0
	for _, events := range byRevision {
		if !stagedOnly(events) {
			n++
		}
	}
	return n, nil
}
