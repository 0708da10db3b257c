package controlplane

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// sweep forgets, now and then, what nothing refers to any more. Several instances
// may sweep at once: everything goes by compare-and-delete.
func (c *ControlPlane) sweep(ctx context.Context) error {
	suspects := map[string]int64{}
	for {
		// Spread, so that instances that started together do not sweep together.
		pause := c.cfg.SweepInterval/2 + rand.N(c.cfg.SweepInterval) //nolint:gosec // spreads load, guards nothing
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		if err := c.sweepOnce(ctx, suspects); err != nil && ctx.Err() == nil {
			c.cfg.Logger.Warn("a clean-up did not finish; it is tried again", "error", err)
		}
	}
}

// sweepOnce removes old idempotency records, memories of old deletions, expired access
// tokens, and the specs, histories and tokens that two sweeps in a row found
// unreferenced: those of a creation whose instance died between writing them and
// transaction A.
func (c *ControlPlane) sweepOnce(ctx context.Context, suspects map[string]int64) error {
	if c.doubtful() {
		return errStale
	}
	if err := c.tell(ctx); err != nil {
		return err
	}
	err := errors.Join(
		sweepOld(ctx, c, record.RequestsPrefix, c.cfg.KeepRequest, func(r *record.Request) bool { return !c.inFlight(r.UID) }),
		sweepOld(ctx, c, record.DeletedPrefix, c.cfg.KeepDeleted, func(*record.Deleted) bool { return true }),
	)
	if err = errors.Join(err, c.sweepRemoved(ctx), c.trimAudit(ctx), c.sweepJobs(ctx)); err != nil {
		return err
	}
	prefixes := []string{record.HistoryPrefix, record.SecretsPrefix}
	var tokens []string
	c.state.read(func(v *View) {
		for cluster := range v.nodes {
			tokens = append(tokens, record.TokensPrefix(cluster))
			prefixes = append(prefixes, record.SpecsPrefix(cluster), record.TokensPrefix(cluster))
		}
	})
	for _, prefix := range tokens {
		if err := c.sweepTokens(ctx, prefix); err != nil {
			return err
		}
	}
	seen := map[string]int64{}
	var again []store.KV
	for _, prefix := range prefixes {
		items, err := c.store.ListKeys(ctx, prefix)
		if err != nil {
			return err
		}
		for _, kv := range items {
			if c.referenced(kv.Key) {
				continue
			}
			seen[kv.Key] = kv.ModRevision
			if suspects[kv.Key] == kv.ModRevision {
				again = append(again, kv)
			}
		}
	}
	clear(suspects)
	maps.Copy(suspects, seen)
	return c.sweepStaged(ctx, again)
}

// sweepStaged removes what two sweeps have found unreferenced. Whoever staged it may
// have slept, and may commit at this moment. Its transaction compares the fence as it
// was before anything was staged; so once the fence is bumped, either it has committed,
// which is seen here, or it never will and stages anew.
func (c *ControlPlane) sweepStaged(ctx context.Context, items []store.KV) error {
	if len(items) == 0 {
		return nil
	}
	res, err := c.store.Update(ctx, store.Update{Keys: []string{record.FenceKey}, Build: func(v store.View, tx *store.Txn) error {
		return bumpFence(v, tx, "swept")
	}})
	if err != nil {
		return err
	}
	if err := c.shows(ctx, res.Revision); err != nil {
		return err
	}
	for _, kv := range items {
		if c.referenced(kv.Key) {
			continue
		}
		if err := c.deleteAsRead(ctx, kv); err != nil {
			return err
		}
	}
	return nil
}

// referenced says whether a spec or a history belongs to something that lives.
func (c *ControlPlane) referenced(key string) bool {
	ref := record.ParseKey(key)
	found := false
	c.state.read(func(v *View) {
		switch ref.Kind {
		case record.KindHistory, record.KindSecrets:
			_, found = v.federations[ref.Name]
		case record.KindTokens:
			f := v.federations[ref.Name].rec
			found = f != nil && f.Phase != record.PhaseDeleting && f.Phase != record.PhaseRollingBack && !f.Phase.Result() &&
				v.onCluster[ref.Cluster][ref.Name]
		case record.KindSpec:
			d := v.desired(ref.Cluster, ref.Name)
			found = d.rec != nil && (d.rec.Spec == ref.Name+"/"+ref.Rest || v.proposed(d.rec, ref.Name+"/"+ref.Rest))
		default:
			found = true // its life does not end here
		}
	})
	return found
}

// sweepOld removes what was kept for long enough, and may go.
func sweepOld[T any](ctx context.Context, c *ControlPlane, prefix string, keep time.Duration, may func(*T) bool) error {
	items, _, err := c.store.List(ctx, prefix)
	if err != nil {
		return err
	}
	for _, kv := range items {
		if c.age(kv.ModRevision) <= keep {
			continue
		}
		rec, err := store.Decode[T](kv)
		if err != nil {
			c.cfg.Logger.Error("a record cannot be read", "error", err)
			continue
		}
		if may(rec) {
			if err := c.deleteAsRead(ctx, kv); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteAsRead deletes a record unless it was written since it was read.
func (c *ControlPlane) deleteAsRead(ctx context.Context, kv store.KV) error {
	_, err := c.store.Update(ctx, store.Update{Keys: []string{kv.Key}, Build: func(v store.View, tx *store.Txn) error {
		if now, ok := v.KV(kv.Key); ok && now.ModRevision == kv.ModRevision {
			tx.Expect(kv.Key)
			tx.Delete(kv.Key)
		}
		return nil
	}})
	return err
}
