package federations

import (
	"context"
	"fmt"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// BindOwner implements identity.Owners. OSCAR identifies a user by his subject alone, and so do
// the owners of federations and the lists of allowed users. An issuer only promises that its
// own subjects are different people. So the store keeps, for each subject, the first issuer
// that it came from; a user of another issuer with the same subject is refused.
func (c *Controller) BindOwner(ctx context.Context, subject, issuer string) error {
	key := record.OwnerKey(subject)
	_, err := c.store.Update(ctx, store.Update{Keys: []string{key}, Build: func(v store.View, tx *store.Txn) error {
		kv, bound := v.KV(key)
		if !bound {
			tx.Expect(key)
			tx.Put(key, record.Owner{V: record.Version, Issuer: issuer, BoundAt: record.At(c.cfg.Now())})
			return nil
		}
		owner, err := store.Decode[record.Owner](kv)
		if err != nil {
			return err
		}
		if owner.Issuer != issuer {
			return fmt.Errorf("%w: the subject is that of a user of %s", identity.ErrUnauthenticated, owner.Issuer)
		}
		return nil
	}})
	return err
}
