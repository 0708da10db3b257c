package tokens

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// stepsAtOnce bounds the steps of one transaction: what a holder has sealed may have any size.
const stepsAtOnce = 16

// reconcile takes the next steps of one federation's tokens, and returns after which time to
// look again. It passes the wants of members on to the holders, and their grants back. A step
// compares all records that it was decided on, so that of two instances one wins.
func (c *Controller) reconcile(ctx context.Context, uid string) (time.Duration, error) {
	var s tokenSituation
	found := false
	c.state.Read(func(v *view.View) { s, found = situationOf(v, uid) })
	if !found {
		return 0, nil
	}
	if c.gate.Unverified() {
		return 0, gate.ErrStale
	}
	s.now, s.until = c.cfg.Now(), map[string]time.Time{}
	for member, grant := range s.tokens.Grants {
		if grant.Rec != nil && grant.Rec.LifeS > 0 {
			since := c.grantsSeen.Since(member+"/"+uid, strconv.FormatInt(grant.Rev, 10), s.now)
			s.until[member] = since.Add(time.Duration(grant.Rec.LifeS) * time.Second)
		}
	}
	steps, again := decideTokens(s)
	for some := range slices.Chunk(steps, stepsAtOnce) {
		if err := gate.InParts(some, func(some []tokenStep) error { return c.writeTokens(ctx, uid, some) }); err != nil {
			return 0, err
		}
	}
	if again.IsZero() {
		return 0, nil
	}
	return max(again.Sub(c.cfg.Now()), 10*time.Millisecond), nil
}

func (c *Controller) writeTokens(ctx context.Context, uid string, steps []tokenStep) error {
	expect := map[string]int64{}
	for _, step := range steps {
		maps.Copy(expect, step.expect)
	}
	keys := slices.Sorted(maps.Keys(expect))
	res, err := c.store.Update(ctx, store.Update{Keys: keys, Build: func(v store.View, tx *store.Txn) error {
		for _, key := range keys {
			if kv, _ := v.KV(key); kv.ModRevision != expect[key] {
				return gate.ErrStale
			}
			tx.Expect(key)
		}
		for _, step := range steps {
			for key, rec := range step.put {
				if rec == nil {
					tx.Delete(key)
				} else {
					tx.Put(key, rec)
				}
			}
		}
		return nil
	}})
	if err != nil {
		return err
	}
	for _, step := range steps {
		c.cfg.Step(step.name)
		c.cfg.Logger.Info("token step", "federation", uid, "step", step.name, "keys", slices.Sorted(maps.Keys(trimmed(step.put))), "revision", res.Revision)
	}
	return c.state.Wait(ctx, res.Revision)
}

// trimmed lists the keys of a step without their common prefix.
func trimmed(put map[string]any) map[string]any {
	out := map[string]any{}
	for key, rec := range put {
		out[key[len(record.Root):]] = rec
	}
	return out
}
