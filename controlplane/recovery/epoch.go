package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Renew gives a restored store a new epoch, and writes it for every cluster, also for those that are
// being removed. No other process may use the store. witness is the file of an instance that
// used the former store, if there is one.
func Renew(ctx context.Context, st *store.Store, witness string, now time.Time) (epoch string, err error) {
	meta, err := readMeta(ctx, st)
	if err != nil {
		return "", err
	}
	found := suspicion{epoch: meta.Epoch}
	if seen, err := readWitness(witness); err == nil && seen != nil && seen.ControlPlane == meta.ControlPlane && !slices.Contains(meta.Epochs, seen.Epoch) {
		found.epoch = seen.Epoch
	}
	if meta, err = renew(ctx, st, found, now); err != nil {
		return "", err
	}
	keys, err := st.ListKeys(ctx, record.ClusterTreePrefix)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, kv := range keys {
		if ref := record.ParseKey(kv.Key); ref.Kind == record.KindDesiredCluster {
			ids = append(ids, ref.Cluster)
		}
	}
	return meta.Epoch, gate.Spread(ctx, st, ids)
}

func readMeta(ctx context.Context, st *store.Store) (*record.Meta, error) {
	kv, err := st.Get(ctx, record.MetaKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil, gate.ErrNoStore
	}
	if err != nil {
		return nil, err
	}
	return store.Decode[record.Meta](kv)
}

// renew begins a new epoch for a store that is taken for restored, unless it has one since. So of
// several instances that detect one restore only one begins an epoch. It returns the meta record as
// it is then.
func renew(ctx context.Context, st *store.Store, found suspicion, now time.Time) (*record.Meta, error) {
	epoch := record.NewUID()
	var meta *record.Meta
	_, err := st.Update(ctx, store.Update{
		Keys: []string{record.MetaKey},
		Build: func(v store.View, tx *store.Txn) error {
			var err error
			if meta, err = gate.Meta(v); err != nil || found.settled(meta) {
				return err
			}
			meta.Renew(epoch, cmp.Or(found.begun, found.epoch), record.At(now))
			tx.Expect(record.MetaKey)
			tx.Put(record.MetaKey, meta)
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("give the store a new epoch: %w", err)
	}
	return meta, nil
}
