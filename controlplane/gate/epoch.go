package gate

import (
	"errors"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// ErrStale says that the federation has moved on since the situation was read.
var ErrStale = errors.New("the federation has changed since it was looked at")

// ErrFence says that the set of clusters changed after the service was validated, or
// that what was staged for it may have been swept.
var ErrFence = errors.New("the registered clusters have changed")

// ErrNoStore says that an etcd holds nothing of a control plane.
var ErrNoStore = errors.New("it holds no records of a control plane")

// SameEpoch demands that the store is still in the epoch that a transaction was made
// for.
func SameEpoch(v store.View, tx *store.Txn, epoch string) error {
	kv, ok := v.KV(record.MetaKey)
	if !ok {
		return ErrNoStore
	}
	meta, err := store.Decode[record.Meta](kv)
	if err != nil {
		return err
	}
	if meta.Word() != epoch {
		return ErrFence
	}
	tx.Expect(record.MetaKey)
	return nil
}

// BumpFence makes every creation that was validated against the clusters as they
// were look again.
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
