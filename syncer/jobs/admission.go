package jobs

import (
	"context"

	"github.com/oscarfed/oscarfed/internal/share"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// admission is what waits to be claimed or posted, and what is.
type admission struct {
	// claimable and ready wait for a slot.
	claimable, ready fairQueue
	// claimed counts the reports that say so, posting the slots that are taken.
	claimed, posting share.Held
	deleting         int
}

// mayClaim says whether a tenant may claim one more, beside what is claimed: only while its account
// has fewer than are free. So there is always something of others that is claimed and can take the
// next slot.
func mayClaim(claimed *share.Held) func(share.Tenant) bool {
	return func(t share.Tenant) bool { return claimed.Of(t.Account) < claimAhead-claimed.Total() }
}

// mayPost says whether a tenant may have one slot more. It is as with share.Slots: an account alone has all but
// those that are kept for others.
func (j *Jobs) mayPost(t share.Tenant) bool { return j.slots.posting.May(t, j.cfg.Posts) }

// admit takes those that wait, as far as there is room. Each is decided upon again. It
// needs mu.
func (j *Jobs) admit(ctx context.Context, s *clusterView, view *store.MirrorView, changes []*change) []*change {
	claimed := j.slots.claimed.Clone() // with what is claimed now
	for {
		a, more := j.pop(view, &j.slots.claimable, &claimed, mayClaim(&claimed))
		if !more {
			break
		}
		if a == nil {
			continue
		}
		decision := plan(j.situationOf(s, a))
		if decision.step != stepClaim {
			j.due.Add(a.key)
			continue
		}
		claimed.Add(a.tenant, 1)
		changes = append(changes, j.change(s, a, decision))
	}
	for {
		a, more := j.pop(view, &j.slots.ready, &j.slots.posting, j.mayPost)
		if !more {
			return changes
		}
		if a == nil {
			continue
		}
		decision := plan(j.situationOf(s, a))
		if decision.step != stepBegin && decision.step != stepPost {
			j.due.Add(a.key)
			continue
		}
		j.slots.posting.Add(a.tenant, 1)
		a.slot, a.memory.busy = true, true
		assignment, revision := *a.assignment, a.revision
		if decision.step == stepBegin {
			j.calls.Go(func() { j.openJob(ctx, a, assignment) })
		} else {
			j.calls.Go(func() { j.repost(ctx, a, assignment, revision) })
		}
	}
}

// pop takes the next that may have a slot; nil when that is not asked for any more, false
// when there is none.
func (j *Jobs) pop(view *store.MirrorView, queue *fairQueue, held *share.Held, may func(share.Tenant) bool) (*attempt, bool) {
	key, ok := queue.next(held, may)
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
		j.slots.posting.Add(a.tenant, -1)
	}
}

// countClaimed counts an attempt that is claimed, or counts it no more. It needs mu.
func (j *Jobs) countClaimed(a *attempt, n int) {
	if a.report != nil && a.report.State == record.JobClaimed {
		j.slots.claimed.Add(a.tenant, n)
	}
}
