package controlplane

import (
	"context"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// readingGrace is how long a syncer has to report the outcome of a reading before
// the audit says that it is unknown.
const readingGrace = 10 * time.Minute

// readings moves what syncers report of refresh tokens that they have read into the
// audit, where no syncer can take it away again. It ends with its queue.
func (c *ControlPlane) readings(ctx context.Context) {
	for {
		key, shutdown := c.read.Get()
		if shutdown {
			return
		}
		wait, err := c.moveReading(ctx, key)
		switch {
		case err != nil && ctx.Err() == nil:
			c.cfg.Logger.Warn("a reading of a refresh token is not in the audit yet", "key", key, "error", err)
			c.read.AddRateLimited(key)
		case wait > 0:
			c.read.AddAfter(key, wait)
		default:
			c.read.Forget(key)
		}
		c.read.Done(key)
	}
}

// moveReading is one transaction: the entry comes and the report goes. A report
// without an outcome is left for as long as it answers.
func (c *ControlPlane) moveReading(ctx context.Context, key string) (wait time.Duration, err error) {
	now := c.cfg.Now()
	_, err = c.store.Update(ctx, store.Update{Keys: []string{key}, Build: func(v store.View, tx *store.Txn) error {
		wait = 0
		kv, ok := v.KV(key)
		if !ok {
			return nil
		}
		r, err := store.Decode[record.Reading](kv)
		if err != nil {
			// It can be no report, whoever put it there.
			r = &record.Reading{At: record.At(now), Outcome: "the report cannot be read"}
		}
		if age := now.Sub(r.At.Time); r.Outcome == "" && age >= 0 && age < readingGrace {
			wait = readingGrace - age
			return nil
		}
		tx.Expect(key)
		tx.Delete(key)
		note(tx, now, c.entryOfReading(record.ParseKey(key).Cluster, r))
		return nil
	}})
	return wait, err
}

// entryOfReading trusts the syncer for what it did, and for nothing else: whose
// federation it is the store knows.
func (c *ControlPlane) entryOfReading(cluster string, r *record.Reading) record.Audit {
	e := record.Audit{Action: record.ActionReadToken, Outcome: record.OutcomeDone, ClusterID: cluster}
	c.state.read(func() {
		if f, ok := c.state.federations[r.Federation]; ok {
			e.Federation, e.Owner, e.GroupID, e.Generation = f.rec.UID, f.rec.Owner, f.rec.GroupID, f.rec.Generation
		}
	})
	why := "an unknown use"
	switch r.Why {
	case record.ReadExchange:
		why = "exchanged for an access token"
	case record.ReadRevoke:
		why = "revoked at the issuer"
	}
	outcome := cut(r.Outcome, 100)
	if outcome == "" {
		e.Outcome, outcome = record.OutcomeUnknown, "its outcome was never reported"
	}
	e.Detail = fmt.Sprintf("token %d, at %s: %s: %s", r.Serial, r.At.UTC().Format(time.RFC3339), why, outcome)
	return e
}
