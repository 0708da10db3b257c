package answers

import (
	"context"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/syncer/manager"
)

// probeTimeout is how long to wait for an answer before OSCAR counts as silent.
const probeTimeout = 5 * time.Second

// Ask probes OSCAR: its identity, and what else is named. One that is silent is not asked
// more.
func (a *Answers) Ask(ctx context.Context, ops []manager.Op) {
	a.lookAtLease()
	if !asked(ctx, a, manager.OpInfo, a.Infos) {
		return
	}
	if slices.Contains(ops, manager.OpList) && !asked(ctx, a, manager.OpList, a.Lists) {
		return
	}
	if slices.Contains(ops, manager.OpConfig) && !asked(ctx, a, manager.OpConfig, a.Storages) {
		return
	}
	if slices.Contains(ops, manager.OpBuckets) {
		asked(ctx, a, manager.OpBuckets, a.Buckets)
	}
}

// asked waits for an answer to a call, as long as a probe does; what it is, health notes.
func asked[T any](ctx context.Context, a *Answers, op manager.Op, of *Shared[T]) bool {
	waiting, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, _, err := of.Get(waiting, a.session.Now())
	if waiting.Err() != nil && ctx.Err() == nil {
		a.Health.Failed(op, Hangs(op))
	}
	return err == nil
}

// lookAtLease notes whether this OSCAR is ours to write to.
func (a *Answers) lookAtLease() {
	if a.session.Leads() {
		a.Health.answered(opLease)
		return
	}
	a.Health.Failed(opLease, NoLease(a.kube.LeaseTrouble()))
}

// Silent names a call that OSCAR has not answered since then.
func (a *Answers) Silent(since time.Time) (manager.Op, bool) {
	switch {
	case a.Lists.unanswered(since):
		return manager.OpList, true
	case a.Infos.unanswered(since):
		return manager.OpInfo, true
	case a.Buckets.unanswered(since):
		return manager.OpBuckets, true
	}
	return "", false
}
