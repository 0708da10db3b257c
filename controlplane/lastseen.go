package controlplane

import (
	"context"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// lastSeenSlack is how far apart two instances may note the end of one session.
const lastSeenSlack = 5 * time.Second

// noteEnds writes when a cluster's session ended, so that its absence has a date.
// It is for people: no decision is taken from it.
func (c *ControlPlane) noteEnds(ctx context.Context) {
	for {
		cluster, shutdown := c.ended.Get()
		if shutdown {
			return
		}
		if err := c.noteEnd(ctx, cluster); err != nil && ctx.Err() == nil {
			c.cfg.Logger.Warn("the end of a session was not noted", "cluster", cluster, "error", err)
			c.ended.AddRateLimited(cluster)
		} else {
			c.ended.Forget(cluster)
		}
		c.ended.Done(cluster)
	}
}

func (c *ControlPlane) noteEnd(ctx context.Context, cluster string) error {
	key, now := record.ClusterKey(cluster), c.cfg.Now()
	_, err := c.store.Update(ctx, store.Update{
		Keys: []string{key, record.SessionKey(cluster)},
		Build: func(v store.View, tx *store.Txn) error {
			kv, ok := v.KV(key)
			if _, alive := v.KV(record.SessionKey(cluster)); alive || !ok {
				return nil
			}
			reg, err := store.Decode[record.Cluster](kv)
			if err != nil {
				return err
			}
			if reg.LastSeen != nil && now.Sub(reg.LastSeen.Time) < lastSeenSlack {
				return nil
			}
			at := record.At(now)
			reg.LastSeen = &at
			tx.Expect(key)
			tx.Put(key, reg)
			return nil
		},
	})
	return err
}
