package controlplane

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
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
// tokens, and the specs, parts, secrets, histories and tokens that two sweeps in a row found
// unreferenced: those of a creation whose instance died between writing them and
// transaction A.
func (c *ControlPlane) sweepOnce(ctx context.Context, suspects map[string]int64) error {
	if c.gate.Unverified() {
		return gate.ErrStale
	}
	if err := c.advanceElapsed(ctx); err != nil {
		return err
	}
	err := errors.Join(
		gate.SweepOld(ctx, c.gate, record.RequestsPrefix, c.cfg.KeepRequest, func(r *record.Request) bool { return !c.Requests.InFlight(r.UID) }),
		gate.SweepOld(ctx, c.gate, record.DeletedPrefix, c.cfg.KeepDeleted, func(*record.Deleted) bool { return true }),
	)
	if err = errors.Join(err, c.Clusters.SweepRemoved(ctx), c.Requests.TrimAudit(ctx), c.Jobs.Sweep(ctx)); err != nil {
		return err
	}
	prefixes := []string{record.HistoryPrefix, record.SecretsPrefix, record.PartsPrefix}
	var tokens []string
	c.state.Read(func(v *view.View) {
		for cluster := range v.Nodes.All() {
			tokens = append(tokens, record.TokensPrefix(cluster))
			prefixes = append(prefixes, record.SpecsPrefix(cluster), record.TokensPrefix(cluster))
		}
	})
	for _, prefix := range tokens {
		if err := c.Tokens.Sweep(ctx, prefix); err != nil {
			return err
		}
	}
	seen := map[string]int64{}
	var again []store.KV
	for _, prefix := range prefixes {
		items, err := c.cfg.Store.ListKeys(ctx, prefix)
		if err != nil {
			return err
		}
		if items, err = c.Federations.Unreferenced(ctx, items); err != nil {
			return err
		}
		for _, kv := range items {
			seen[kv.Key] = kv.ModRevision
			if suspects[kv.Key] == kv.ModRevision {
				again = append(again, kv)
			}
		}
	}
	clear(suspects)
	maps.Copy(suspects, seen)
	return c.Federations.SweepStaged(ctx, again)
}
