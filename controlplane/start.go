package controlplane

import (
	"context"
	"errors"
	"fmt"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// prepare waits until etcd can be read, checks that this version and this identity suit what
// is there, and writes what an empty store needs.
func (c *ControlPlane) prepare(ctx context.Context) error {
	if err := c.gate.RetryWhileUnavailable(ctx, "it cannot be read yet", func() error { return c.checkReadable(ctx) }); err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	select {
	case <-c.mirror.Synced():
	case <-ctx.Done():
		return ctx.Err()
	}
	c.state.Refresh()
	c.Events.Begin()
	if err := c.Forms.Check(); err != nil {
		return err
	}
	if err := c.Recovery.Recognise(ctx); err != nil {
		return fmt.Errorf("recognise the store: %w", err)
	}
	if err := c.gate.RetryWhileUnavailable(ctx, "it is not prepared yet", func() error { return c.initialise(ctx) }); err != nil {
		return fmt.Errorf("prepare the store: %w", err)
	}
	c.Forms.Remind()
	return nil
}

// checkReadable says whether etcd lets us read. The mirror would ask for ever.
func (c *ControlPlane) checkReadable(ctx context.Context) error {
	_, err := c.cfg.Store.Get(ctx, record.MetaKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// initialise writes the meta record of an empty store; of two instances one does. Done twice
// it finds what it did.
func (c *ControlPlane) initialise(ctx context.Context) error {
	res, err := c.cfg.Store.Update(ctx, store.Update{
		Keys: []string{record.MetaKey},
		Build: func(v store.View, tx *store.Txn) error {
			if kv, ok := v.KV(record.MetaKey); ok {
				return c.sameIdentity(kv)
			}
			tx.Expect(record.MetaKey)
			tx.Put(record.MetaKey, record.Meta{
				V: record.Version, Schema: 1, ControlPlane: record.NewUID(), Epoch: record.NewUID(),
				Recipient: c.cfg.Identity.Recipient(), CreatedAt: record.At(c.cfg.Now()),
				Minimum: c.cfg.Forms.Minimum(), // there is no older version to go back to
			})
			tx.Put(record.ElapsedKey, (*record.Elapsed)(nil).Pass(0, v.Revision, 0, 0))
			return nil
		},
	})
	if err != nil {
		return err
	}
	return c.state.Wait(ctx, res.Revision)
}

// sameIdentity refuses to work with a key that the store was not founded with: it
// could open nothing, and every service token would be another one.
func (c *ControlPlane) sameIdentity(kv store.KV) error {
	meta, err := store.Decode[record.Meta](kv)
	if err != nil {
		return err
	}
	if meta.Recipient != c.cfg.Identity.Recipient() {
		return fmt.Errorf("the identity file holds the key of %s, but this store was founded with that of %s: give all instances the same identity file",
			c.cfg.Identity.Recipient(), meta.Recipient)
	}
	return nil
}
