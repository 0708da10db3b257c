package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// ErrStale says that what was decided on has changed, or cannot be trusted now: decide again.
var ErrStale = errors.New("the federation has changed since it was looked at")

// ErrFence says that the set of clusters changed after the service was validated, that the
// records staged for it may have been swept, that the store has a new epoch, or that keys have
// come: validate and stage again.
var ErrFence = errors.New("the registered clusters have changed")

// ErrNoStore says that an etcd holds nothing of a control plane.
var ErrNoStore = errors.New("it holds no records of a control plane")

// Meta is the meta record in a view; ErrNoStore when there is none.
func Meta(v store.View) (*record.Meta, error) {
	kv, ok := v.KV(record.MetaKey)
	if !ok {
		return nil, ErrNoStore
	}
	return store.Decode[record.Meta](kv)
}

// SameEpoch fails a transaction with ErrFence when the store is no longer in the given epoch.
func SameEpoch(v store.View, tx *store.Txn, epoch string) error {
	meta, err := Meta(v)
	if err != nil {
		return err
	}
	if meta.Word() != epoch {
		return ErrFence
	}
	tx.Expect(record.MetaKey)
	return nil
}

// DecidedIn fails a transaction with ErrStale when the store is no longer in the epoch that its step
// was decided in.
func DecidedIn(v store.View, tx *store.Txn, epoch string) error {
	err := SameEpoch(v, tx, epoch)
	if errors.Is(err, ErrFence) {
		return ErrStale
	}
	return err
}

// BumpFence makes every creation that was validated against the former set of clusters validate
// again.
func BumpFence(v store.View, tx *store.Txn, why string) error {
	fence := record.Fence{V: record.Version}
	if kv, ok := v.KV(record.FenceKey); ok {
		old, err := store.Decode[record.Fence](kv)
		if err != nil {
			return err
		}
		fence.Bump = old.Bump
	}
	fence.Bump++
	fence.Why = why
	tx.Expect(record.FenceKey)
	tx.Put(record.FenceKey, fence)
	return nil
}

// spreadAtOnce is how many clusters are told of an epoch in one transaction.
const spreadAtOnce = 50

// Spread tells clusters the present epoch. It may be done by several instances, and
// again: what is told already is not written.
func Spread(ctx context.Context, st *store.Store, clusters []string) error {
	for some := range slices.Chunk(clusters, spreadAtOnce) {
		keys := []string{record.MetaKey}
		for _, id := range some {
			keys = append(keys, record.DesiredClusterKey(id))
		}
		_, err := st.Update(ctx, store.Update{Keys: keys, Build: func(v store.View, tx *store.Txn) error {
			meta, err := Meta(v)
			if err != nil {
				return err
			}
			tx.Expect(record.MetaKey)
			for _, key := range keys[1:] {
				kv, ok := v.KV(key)
				if !ok {
					continue // removed meanwhile
				}
				d, err := store.Decode[record.DesiredCluster](kv)
				if err != nil {
					return err
				}
				if d.Epoch == meta.Epoch {
					continue
				}
				d.Epoch, d.RestoredAt = meta.Epoch, meta.RestoredAt
				tx.Expect(key)
				tx.Put(key, d)
			}
			return nil
		}})
		if err != nil {
			return fmt.Errorf("tell the clusters the epoch: %w", err)
		}
	}
	return nil
}
