package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"math/big"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Lease is a time that etcd counts, and that is not renewed: keys that are put with it go when it
// is over. An election begins it anew. 0 is none.
type Lease int64

// Grant begins a lease of a time in whole seconds.
func (s *Store) Grant(ctx context.Context, life time.Duration) (Lease, error) {
	grant, err := Repeat(ctx, s, func(ctx context.Context) (*pb.LeaseGrantResponse, error) { return s.grant(ctx, life) })
	if err != nil {
		return 0, fmt.Errorf("begin a lease of %s: %w", life, err)
	}
	return Lease(grant.ID), nil
}

// grant asks once for a lease. etcd's own numbers follow each other, and a user who knows one may
// end the lease as long as it has no keys: so the number is a random one. It may be taken, then
// the next try has another. The number that counts is that of the answer.
func (s *Store) grant(ctx context.Context, life time.Duration) (*pb.LeaseGrantResponse, error) {
	id, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64))
	if err != nil {
		return nil, fmt.Errorf("number of a lease: %w", err)
	}
	return pb.NewLeaseClient(s.client.ActiveConnection()).LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: int64(life / time.Second), ID: 1 + id.Int64()})
}

// PutUntil writes a record that goes when a lease is over. When it is over already
// the update ends with ErrSessionLost.
func (tx *Txn) PutUntil(key string, rec any, lease Lease) {
	if value, ok := tx.encode(key, rec); ok {
		tx.add(write{key: key, value: value, lease: int64(lease)})
	}
}
