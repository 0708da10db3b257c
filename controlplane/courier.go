package controlplane

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// couriers is how many federations' tokens are looked after at once, and stepsAtOnce
// how many steps go into one transaction at most: what a holder has sealed has any size.
const (
	couriers    = 4
	stepsAtOnce = 16
)

// courier takes the next steps of the tokens of every federation: it carries what
// members want to the holders, and what these grant back. Each instance runs some; a
// step compares all that it was decided on, so that of two one wins.
func (c *ControlPlane) courier(ctx context.Context) {
	for {
		uid, shutdown := c.tokens.Get()
		if shutdown {
			return
		}
		again, err := c.carry(ctx, uid)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errStale):
			c.tokens.AddRateLimited(uid)
		case err != nil:
			c.cfg.Logger.Warn("a step of a federation's tokens was not taken; it is tried again", "federation", uid, "error", err)
			c.tokens.AddRateLimited(uid)
		default:
			c.tokens.Forget(uid)
			if !again.IsZero() {
				c.tokens.AddAfter(uid, max(again.Sub(c.cfg.Now()), 10*time.Millisecond))
			}
		}
		c.tokens.Done(uid)
	}
}

// carry takes the steps of one federation and says when to look again.
func (c *ControlPlane) carry(ctx context.Context, uid string) (time.Time, error) {
	var s tokenSituation
	found := false
	c.state.read(func(v *View) { s, found = v.custodyOf(uid) })
	if !found {
		return time.Time{}, nil
	}
	if c.doubtful() {
		return time.Time{}, errStale
	}
	s.now, s.until = c.cfg.Now(), map[string]time.Time{}
	for member, grant := range s.custody.grants {
		if grant.rec != nil && grant.rec.LifeS > 0 {
			since := c.grantsSeen.Since(member+"/"+uid, strconv.FormatInt(grant.rev, 10), s.now)
			s.until[member] = since.Add(time.Duration(grant.rec.LifeS) * time.Second)
		}
	}
	steps, again := decideTokens(s)
	for some := range slices.Chunk(steps, stepsAtOnce) {
		if err := inParts(some, func(some []tokenStep) error { return c.writeTokens(ctx, uid, some) }); err != nil {
			return time.Time{}, err
		}
	}
	return again, nil
}

func (c *ControlPlane) writeTokens(ctx context.Context, uid string, steps []tokenStep) error {
	expect := map[string]int64{}
	for _, step := range steps {
		maps.Copy(expect, step.expect)
	}
	keys := slices.Sorted(maps.Keys(expect))
	res, err := c.store.Update(ctx, store.Update{Keys: keys, Build: func(v store.View, tx *store.Txn) error {
		for _, key := range keys {
			if kv, _ := v.KV(key); kv.ModRevision != expect[key] {
				return errStale
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
		c.steps.WithLabelValues(step.name).Inc()
		c.cfg.Logger.Info("token step", "federation", uid, "step", step.name, "keys", slices.Sorted(maps.Keys(trimmed(step.put))), "revision", res.Revision)
	}
	return c.state.wait(ctx, res.Revision)
}

// trimmed are the keys of a step without what all have in common.
func trimmed(put map[string]any) map[string]any {
	out := map[string]any{}
	for key, rec := range put {
		out[key[len(record.Root):]] = rec
	}
	return out
}
