package process

import (
	"context"
	"errors"
	"fmt"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// AwaitSyncer waits until the syncer of a cluster is connected and has said what is
// sealed to it.
func (f *Federation) AwaitSyncer(ctx context.Context, id string) error {
	return await.Try(ctx, "the syncer of "+id+" is connected", func() (bool, error) { return f.connected(ctx, id), nil })
}

func (f *Federation) connected(ctx context.Context, id string) bool {
	if _, err := f.cfg.Store.Get(ctx, record.SessionKey(id)); err != nil {
		return false
	}
	kv, err := f.cfg.Store.Get(ctx, record.ObservedClusterKey(id))
	if err != nil {
		return false
	}
	o, err := store.Decode[record.ObservedCluster](kv)
	return err == nil && o.Recipient != ""
}

// AwaitSettled waits until no federation is under way and no tombstone waits.
func (f *Federation) AwaitSettled(ctx context.Context) error {
	var unsettled error
	err := await.Try(ctx, "the federation is settled", func() (bool, error) {
		unsettled = f.Unsettled(ctx)
		return unsettled == nil, nil
	})
	if err != nil {
		return errors.Join(err, unsettled)
	}
	return nil
}

// Unsettled says what is under way; nil for nothing.
func (f *Federation) Unsettled(ctx context.Context) error {
	items, _, err := f.cfg.Store.List(ctx, record.Root)
	if err != nil {
		return err
	}
	for _, kv := range items {
		switch record.ParseKey(kv.Key).Kind {
		case record.KindFederation:
			fed, err := store.Decode[record.Federation](kv)
			if err != nil || fed.Phase.InFlight() || fed.Phase == record.PhaseDeleting || fed.Change != nil || len(fed.Leaving) > 0 {
				return fmt.Errorf("%s is under way", kv.Key)
			}
		case record.KindDesiredService:
			d, err := store.Decode[record.Desired](kv)
			if err != nil || d.Tombstone() {
				return fmt.Errorf("%s is a tombstone", kv.Key)
			}
		}
	}
	return nil
}
