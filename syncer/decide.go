package syncer

import (
	"context"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/oscar"
)

// decide looks at one service and does what needs no write to OSCAR; the rest
// goes to the write queue.
func (t *term) decide(ctx context.Context, name string) error {
	v, err := t.glance(ctx, name)
	if err != nil {
		return t.refuseForCredential(ctx, v, err)
	}
	return t.carryOut(ctx, v, plan(v.situation))
}

// refuseForCredential answers a prepare when OSCAR does not let us in: that is
// a no. Any other failure is returned.
func (t *term) refuseForCredential(ctx context.Context, v *sight, err error) error {
	if v == nil || v.desired == nil || !oscar.Refused(err) || plan(v.situation).act != castVote {
		return err
	}
	no, _ := refusedCredential(err)
	return t.cast(ctx, v, no)
}

// carryOut does what a decision names, unless it is a write.
func (t *term) carryOut(ctx context.Context, v *sight, d decision) error {
	switch d.act {
	case rest:
		return nil
	case castVote:
		return t.vote(ctx, v)
	case look:
		t.decisions.AddAfter(v.name, d.after)
		return nil
	case report:
		if err := t.reportDecision(ctx, v, d); err != nil {
			return err
		}
		if d.phase == record.PhaseReady && v.resync {
			// Undisturbed since the last repair.
			t.notes.change(v.name, func(n *note) { n.repairs, n.unfixable = 0, "" })
		}
		if d.after > 0 {
			t.decisions.AddAfter(v.name, d.after)
		}
		return nil
	case settle:
		return t.settle(ctx, v)
	case acknowledge:
		return t.acknowledge(ctx, v, d)
	}
	if v.fresh && d.act == reread {
		return nil // a fresh situation is never answered so
	}
	if d.act == reread {
		fresh, err := t.examine(ctx, v.name)
		if err != nil {
			return err
		}
		return t.carryOut(ctx, fresh, plan(fresh.situation))
	}
	t.writes.Add(v.name)
	t.metrics.queue.Set(float64(t.writes.Len()))
	return nil
}

func (t *term) reportDecision(ctx context.Context, v *sight, d decision) error {
	f := finding{phase: d.phase, reason: d.reason, message: d.message}
	if d.failure != nil {
		f.operation, f.status = d.failure.operation, d.failure.status
	}
	if d.reason == record.ReasonDriftUnfixable {
		t.notes.change(v.name, func(n *note) { n.unfixable = v.local.hash })
	}
	return t.report(ctx, v, f)
}

// settle reports that the desired generation is in place, as it was read.
func (t *term) settle(ctx context.Context, v *sight) error {
	t.cfg.FailPoints.Hit(failBeforeReady)
	err := t.report(ctx, v, finding{
		phase:    record.PhaseReady,
		reason:   record.ReasonApplied,
		readBack: v.local.hash,
		made:     t.madeBuckets(v),
	})
	if err != nil {
		return err
	}
	t.cfg.FailPoints.Hit(failAfterReady)
	t.notes.change(v.name, (*note).forgive)
	return nil
}

// acknowledge reports that a tombstone's service is gone.
func (t *term) acknowledge(ctx context.Context, v *sight, d decision) error {
	f := finding{phase: record.PhaseDeleted, reason: record.ReasonDeleted, message: d.message}
	deleted := v.observed != nil && v.observed.ReadBack != ""
	t.notes.change(v.name, func(n *note) { deleted = deleted || n.erased == v.desired.UID })
	if deleted {
		f.operation = "delete"
	}
	if v.buckets == nil {
		var err error
		if v.buckets, _, err = t.buckets.get(ctx, v.now); err != nil {
			return err
		}
	}
	f.made = t.madeBuckets(v)
	t.cfg.FailPoints.Hit(failBeforeDeleted)
	if err := t.report(ctx, v, f); err != nil {
		return err
	}
	t.cfg.FailPoints.Hit(failAfterDeleted)
	return nil
}

// madeBuckets are the buckets that this life's writes made and that still
// stand. One whose tags name another service was made anew by that.
func (t *term) madeBuckets(v *sight) []string {
	var noted []string
	t.notes.change(v.name, func(n *note) {
		if n.uid == v.desired.UID {
			noted = n.made
		}
	})
	if v.observed != nil {
		noted = union(noted, v.observed.BucketsMade)
	}
	made := []string{}
	for _, name := range noted {
		if b, ok := v.buckets[name]; ok && (b.FromService() == "" || b.FromService() == v.name) {
			made = append(made, name)
		}
	}
	return made
}
