package jobs

import (
	"context"
	"maps"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// admission is what waits to be claimed or posted, and what is.
type admission struct {
	// claimable and ready wait for a slot.
	claimable, ready fairQueue
	// claimed counts the reports that say so, posting the slots that are taken.
	claimed, posting slots
	deleting         int
}

// admit takes those that wait, as far as there is room. Each is decided upon again. It
// needs mu.
func (j *Jobs) admit(ctx context.Context, s *clusterView, view *store.MirrorView, changes []*jobChange) []*jobChange {
	claimed := slots{j.slots.claimed.taken, maps.Clone(j.slots.claimed.of)} // with what is claimed now
	for {
		a, more := j.pop(view, &j.slots.claimable, &claimed, claimAhead)
		if !more {
			break
		}
		if a == nil {
			continue
		}
		decision := plan(j.situationOf(s, a))
		if decision.act != jobClaim {
			j.due.Add(a.key)
			continue
		}
		claimed.add(a.tenant.owner, 1)
		changes = append(changes, j.change(s, a, decision))
	}
	for {
		a, more := j.pop(view, &j.slots.ready, &j.slots.posting, j.cfg.Posts)
		if !more {
			return changes
		}
		if a == nil {
			continue
		}
		decision := plan(j.situationOf(s, a))
		if decision.act != jobBegin && decision.act != jobPost {
			j.due.Add(a.key)
			continue
		}
		j.slots.posting.add(a.tenant.owner, 1)
		a.slot, a.memory.busy = true, true
		assignment, revision := *a.assignment, a.revision
		if decision.act == jobBegin {
			j.calls.Go(func() { j.openJob(ctx, a, assignment) })
		} else {
			j.calls.Go(func() { j.repost(ctx, a, assignment, revision) })
		}
	}
}

// pop takes the next that may have a slot; nil when that is not asked for any more, false
// when there is none.
func (j *Jobs) pop(view *store.MirrorView, queue *fairQueue, slots *slots, all int) (*attempt, bool) {
	key, ok := queue.next(func(owner string) bool { return slots.may(owner, all) })
	if !ok {
		return nil, false
	}
	a := j.attempts[key]
	if a == nil {
		return nil, true
	}
	a.queued = false
	return j.refresh(view, key), true
}

func (j *Jobs) giveSlot(a *attempt) {
	a.opened = nil
	if a.slot {
		a.slot = false
		j.slots.posting.add(a.tenant.owner, -1)
	}
}

// countClaimed counts an attempt that is claimed, or counts it no more. It needs mu.
func (j *Jobs) countClaimed(a *attempt, n int) {
	if a.report != nil && a.report.State == record.JobClaimed {
		j.slots.claimed.add(a.tenant.owner, n)
	}
}
