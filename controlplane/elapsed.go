package controlplane

import (
	"context"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// advanceElapsed writes the agreed elapsed time, unless another instance has done so lately.
func (c *ControlPlane) advanceElapsed(ctx context.Context) error {
	every := view.TickMost
	for _, kept := range []time.Duration{c.cfg.KeepRequest, c.cfg.KeepResult, c.cfg.KeepDeleted, c.cfg.KeepJobs} {
		every = min(every, max(kept/8, time.Second))
	}
	if !c.state.Elapsed.Due(c.cfg.Now(), every) {
		return nil
	}
	longest := view.RememberTime * max(c.cfg.KeepDeleted, c.cfg.KeepJobs, c.cfg.KeepRequest, c.cfg.KeepResult)
	res, err := c.cfg.Store.Update(ctx, store.Update{Keys: []string{record.ElapsedKey}, Build: func(v store.View, tx *store.Txn) error {
		now := c.cfg.Now()
		var before *record.Elapsed
		if kv, ok := v.KV(record.ElapsedKey); ok {
			var err error
			if before, err = store.Decode[record.Elapsed](kv); err != nil {
				// What was agreed is lost but for what this instance knows: records count as younger.
				c.cfg.Logger.Error("a record cannot be read; it is written anew", "error", err)
				before = nil
			} else {
				c.state.Elapsed.Observe(before, now)
			}
			if before != nil && !c.state.Elapsed.Due(now, every) {
				return nil // another instance has told it
			}
		}
		next, err := record.Encode(before.Pass(int64(c.state.Elapsed.Total(now)/time.Second), v.Revision, int64(every/time.Second), int64(longest/time.Second)))
		if err != nil {
			return err
		}
		tx.Expect(record.ElapsedKey)
		tx.PutBytes(record.ElapsedKey, next)
		return nil
	}})
	if err != nil {
		return err
	}
	return c.state.Wait(ctx, res.Revision)
}
