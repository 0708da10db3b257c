package clusters

import (
	"context"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// lastSeenSlack is how far apart two instances may note the end of one session.
const lastSeenSlack = 5 * time.Second

// noteEnd writes when a cluster's session ended, so that its absence has a date. It is for
// people: no decision is taken from it. A session that is older than the registration was of another
// cluster with that id.
func (c *Controller) noteEnd(ctx context.Context, session view.EndedSession) error {
	cluster := session.Cluster
	key, now := record.ClusterKey(cluster), c.cfg.Now()
	_, err := c.store.Update(ctx, store.Update{
		Keys: []string{key, record.SessionKey(cluster)},
		Build: func(v store.View, tx *store.Txn) error {
			kv, ok := v.KV(key)
			if _, alive := v.KV(record.SessionKey(cluster)); alive || !ok || session.Rev < kv.CreateRevision {
				return nil
			}
			reg, err := store.Decode[record.Cluster](kv)
			if err != nil {
				return err
			}
			if reg.LastSeen != nil && now.Sub(reg.LastSeen.Time).Abs() < lastSeenSlack {
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
