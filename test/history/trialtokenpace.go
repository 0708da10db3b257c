package history

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// askPace is what lies at least between two records that a control plane writes for one member of what it asks a holder.
const askPace = 5 * time.Second

// tokenRestless has a member take back what it wants, and then name another key for the answer, while the holder gets no
// token: control planes pass that on after a pause.
func (t *trial) tokenRestless() error {
	err := t.owned(t.refreshed())
	f, found := t.federation()
	if err = errors.Join(err, found); err != nil {
		return err
	}
	t.player.people.issuer.Answer(http.StatusServiceUnavailable)
	defer t.player.people.issuer.Answer(0)
	return errors.Join(t.wantTakenBack(f.UID), t.wantMoved(f.UID))
}

// wantTakenBack has the member, which needs none, want a token: its syncer takes that back.
func (t *trial) wantTakenBack(federation string) error {
	// Or it does so before a control plane sees it.
	slow := t.player.net.AddRule(world.HostEtcd, t.cluster.Host(), wire.Rule{Delay: askPace / 10})
	defer slow()
	ask, err := t.asked(federation)
	if err != nil {
		return err
	}
	key := record.WantKey(t.cluster.ID, federation)
	err = awaitEach(wireDelay, "it is taken back", func() bool { return t.absent(key) })
	back := time.Now()
	err = errors.Join(err, awaitEach(wireDelay, "the holder is asked no more", func() bool { return t.absent(t.askKey(federation)) }))
	if back.Sub(ask.AskedAt.Time) >= askPace || time.Since(ask.AskedAt.Time) < askPace {
		err = errors.Join(err, fmt.Errorf("asked at %v, taken back at %v, and the holder is asked no more at %v", ask.AskedAt, back, time.Now()))
	}
	return err
}

// wantMoved has somebody with the rights of the member want a token, and report another key.
func (t *trial) wantMoved(federation string) error {
	host := t.player.net.Host(t.cluster.Host())
	host.Freeze() // or its syncer takes that back
	defer host.Thaw()
	ask, err := t.asked(federation)
	if err != nil {
		return err
	}
	other, err := seal.Generate()
	err = errors.Join(err, t.reportKey(other.Recipient()), awaitEach(wireDelay, "the holder is asked for another key", func() bool {
		now, err := t.ask(federation)
		return err == nil && now.Recipient == other.Recipient()
	}))
	if time.Since(ask.AskedAt.Time) < askPace {
		err = errors.Join(err, fmt.Errorf("asked at %v, and for another key at %v", ask.AskedAt, time.Now()))
	}
	return errors.Join(err, t.reportKey(ask.Recipient))
}

// asked writes that the member wants a token, and gives what the holder is asked for then.
func (t *trial) asked(federation string) (ask *record.TokenAsk, err error) {
	want := &record.Want{V: record.Version, Nonce: rand.Text(), WantedAt: record.At(time.Now())}
	err = t.put(record.WantKey(t.cluster.ID, federation), func(store.KV) (any, error) { return want, nil })
	return ask, errors.Join(err, awaitEach(wireDelay, "the holder is asked", func() bool {
		var err error
		ask, err = t.ask(federation)
		return err == nil && ask.Nonce == want.Nonce
	}))
}

// askKey is that of what the holder is asked for the member.
func (t *trial) askKey(federation string) string {
	return record.TokenAskKey(t.player.users.clusters[0], federation, t.cluster.ID)
}

func (t *trial) ask(federation string) (*record.TokenAsk, error) {
	kv, err := t.player.w.Store.Get(t.ctx, t.askKey(federation))
	if err != nil {
		return nil, err
	}
	return store.Decode[record.TokenAsk](kv)
}

// absent says whether there is no record of a key.
func (t *trial) absent(key string) bool {
	_, err := t.player.w.Store.Get(t.ctx, key)
	return errors.Is(err, store.ErrNotFound)
}

// reportKey reports the key that secrets for the trial's cluster are sealed to.
func (t *trial) reportKey(recipient string) error {
	return t.put(record.ObservedClusterKey(t.cluster.ID), func(kv store.KV) (any, error) {
		told, err := store.Decode[record.ObservedCluster](kv)
		if err == nil {
			told.Recipient = recipient
		}
		return told, err
	})
}

// put writes a record that is made from the one before.
func (t *trial) put(key string, next func(store.KV) (any, error)) error {
	_, err := t.player.w.Store.Update(t.ctx, store.Update{Keys: []string{key}, Build: func(v store.View, tx *store.Txn) error {
		kv, _ := v.KV(key)
		rec, err := next(kv)
		if err != nil {
			return err
		}
		tx.Expect(key)
		tx.Put(key, rec)
		return nil
	}})
	return err
}
