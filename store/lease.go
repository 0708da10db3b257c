package store

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store/record"
)

// Lease is a time that etcd counts, and that nobody renews: keys that are put with it
// go when it is over. An election begins it anew. 0 is none.
type Lease int64

// Grant begins a lease of a time in whole seconds.
func (s *Store) Grant(ctx context.Context, life time.Duration) (Lease, error) {
	grant, err := repeat(ctx, s, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) {
		return s.client.Grant(ctx, int64(life/time.Second))
	})
	if err != nil {
		return 0, fmt.Errorf("begin a lease of %s: %w", life, err)
	}
	return Lease(grant.ID), nil
}

// PutUntil writes a record that goes when a lease is over. When it is over already
// the update ends with ErrSessionLost.
func (tx *Txn) PutUntil(key string, rec any, lease Lease) {
	value, err := record.Encode(rec)
	if err != nil {
		tx.fail(fmt.Errorf("put %s: %w", key, err))
		return
	}
	tx.add(write{key: key, value: value, lease: int64(lease)})
}
