package syncer

import (
	"cmp"
	"context"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
)

// leaseLook is how often it is looked, while this syncer does not lead, why.
const leaseLook = 5 * time.Second

// lead works in a session once no other syncer leads. Until then it tells, where the Lease
// cannot be had at all, why.
func (s *Syncer) lead(ctx context.Context) error {
	waiting, begun := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		s.tellNoLease(waiting)
	}()
	err := s.cfg.Kube.Lead(ctx, cmp.Or(s.cfg.Lock, s.cluster.Instance), func(ctx context.Context, held func() bool) error {
		begun()
		<-told
		return s.work(ctx, held)
	})
	begun()
	<-told
	return err
}

// tellNoLease reports why the Lease cannot be had, when that changes and is no hiccup.
func (s *Syncer) tellNoLease(ctx context.Context) {
	last, said := "", ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(leaseLook):
		}
		now := ""
		if err := s.cfg.Kube.LeaseTrouble(); err != nil {
			now = answers.NoLease(err).Message
		}
		if now != "" && now == last && now != said {
			if err := s.sayNoLease(ctx, now); err != nil && ctx.Err() == nil {
				s.cluster.Log.Warn("that the Lease cannot be had was not reported", "error", err)
				continue
			}
			said = now
		}
		last = now
	}
}

// sayNoLease tells it in observed/cluster, where no syncer has a session: this one has
// none, and takes no other syncer's place.
func (s *Syncer) sayNoLease(ctx context.Context, message string) error {
	session, key := record.SessionKey(s.cluster.ID), record.ObservedClusterKey(s.cluster.ID)
	desired := record.DesiredClusterKey(s.cluster.ID)
	_, err := s.cluster.Store.Update(ctx, store.Update{
		Keys: []string{session, key, desired},
		Build: func(v store.View, tx *store.Txn) error {
			if _, err := s.cluster.Serves(v.KV(desired)); err != nil {
				return err
			}
			if _, taken := v.KV(session); taken {
				return nil
			}
			next := &record.ObservedCluster{}
			if kv, ok := v.KV(key); ok {
				if known, err := store.Decode[record.ObservedCluster](kv); err == nil {
					next = known
				}
			}
			next.V, next.Reason, next.Message, next.Away = record.Version, record.ReasonNoLease, message, true
			tx.Expect(session)
			tx.Expect(key)
			tx.Expect(desired)
			tx.Put(key, next)
			return nil
		},
	})
	return err
}
