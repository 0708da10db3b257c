package gate

import (
	"context"
	"time"

	"github.com/oscarfed/oscarfed/store"
)

// SweepOld deletes the records below a prefix that are older than keep and that may allows to
// delete.
func SweepOld[T any](ctx context.Context, g *Gate, prefix string, keep time.Duration, may func(*T) bool) error {
	items, _, err := g.store.List(ctx, prefix)
	if err != nil {
		return err
	}
	for _, kv := range items {
		if g.Age(kv.ModRevision) <= keep {
			continue
		}
		rec, err := store.Decode[T](kv)
		if err != nil {
			g.cfg.Logger.Error("a record cannot be read", "error", err)
			continue
		}
		if may(rec) {
			if err := g.DeleteAsRead(ctx, kv); err != nil {
				return err
			}
		}
	}
	return nil
}
