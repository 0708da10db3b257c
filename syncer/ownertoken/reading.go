package ownertoken

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/token"
)

// maxReadings bounds the uses of refresh tokens that stand below our prefix while the
// control plane does not take them from there. The oldest go.
const maxReadings = 200

// outcomeTimeout bounds the note of an outcome: what was done is done.
const outcomeTimeout = 10 * time.Second

// errUnfenced says that there is no session to report in.
var errUnfenced = errors.New("the syncer has no session")

// reportReading writes that a refresh token is about to be read. It is fenced like any
// report: a syncer that has lost its session reads no token.
func (p *Process) reportReading(ctx context.Context, r token.Reading) (func(outcome string), error) {
	t := p.current.Load()
	if t == nil {
		return nil, errUnfenced
	}
	rec := record.Reading{
		V: record.Version, At: record.At(p.cluster.Now()), Instance: p.cluster.Instance, Federation: r.Federation, Owner: r.Owner,
		Serial: r.Serial, Why: record.ReadExchange,
	}
	if r.Revoke {
		rec.Why = record.ReadRevoke
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	key := record.ReadingKey(p.cluster.ID, id.String())
	var old []string
	for kv := range p.cluster.Mirror.Snapshot().Prefix(record.ReadingsPrefix(p.cluster.ID)) {
		old = append(old, kv.Key)
	}
	_, err = p.cluster.Store.Update(ctx, store.Update{Keys: []string{t.session.Lease.Key()}, Build: func(_ store.View, tx *store.Txn) error {
		tx.ExpectSession(t.session.Lease)
		tx.Put(key, rec)
		for _, gone := range old[:max(0, len(old)+1-maxReadings)] {
			tx.Delete(gone)
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return func(outcome string) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTimeout)
		defer cancel()
		rec.Outcome = outcome
		_, err := p.cluster.Store.Update(ctx, store.Update{Keys: []string{t.session.Lease.Key(), key}, Build: func(v store.View, tx *store.Txn) error {
			if _, there := v.KV(key); !there {
				return nil // it was taken over without its outcome
			}
			tx.ExpectSession(t.session.Lease)
			tx.Expect(key)
			tx.Put(key, rec)
			return nil
		}})
		if err != nil {
			p.cluster.Log.Warn("the outcome of a use of a refresh token is not in the store", "federation", r.Federation, "outcome", outcome, "error", err)
		}
	}, nil
}
