package ownertoken

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// A cluster that is to make a user's service, and has no access token of his that is
// good, asks the holder of his refresh token for one. It wants once for all that need
// it; what it was granted serves until it expires.

// needsKept is how long a need is kept, beyond three full compares, after the last
// decision that had it.
const needsKept = time.Minute

// need is what became of a federation's need for a token.
type need struct {
	access  string
	expires time.Time
	// reason and message say why there is none.
	reason  record.Reason
	message string
}

// good says whether there is a token that can be used.
func (n need) good(now time.Time) bool {
	return n.access != "" && now.Add(TokenSlack).Before(n.expires)
}

// needs are the federations that need a token here. It is safe for concurrent use.
type needs struct {
	now func() time.Time

	mu sync.Mutex
	of map[string]*needed
}

// needed is one federation's need: when a decision first and last had it, and what is
// known.
type needed struct {
	first, last time.Time
	have        need
}

func newNeeds(now func() time.Time) *needs {
	return &needs{now: now, of: map[string]*needed{}}
}

// ask notes that a token is needed, and gives what is known and since when it is
// needed. fresh says that it was not needed before, or that what there was is not good
// any more.
func (n *needs) ask(federation string, now time.Time) (have need, since time.Time, fresh bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.of[federation]
	if e == nil || e.have.access != "" && !e.have.good(now) {
		e, fresh = &needed{first: now}, true
		n.of[federation] = e
	}
	e.last = now
	return e.have, e.first, fresh
}

// wanted says whether a token is needed that is not there.
func (n *needs) wanted(federation string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.of[federation]
	return e != nil && !e.have.good(n.now())
}

// known says whether a token is, or was lately, needed.
func (n *needs) known(federation string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.of[federation] != nil
}

// answer notes what is known from now on, and says whether that is news.
func (n *needs) answer(federation string, have need) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.of[federation]
	if e == nil || e.have == have {
		return false
	}
	e.have = have
	return true
}

// forget drops the needs that no service has had since a time.
func (n *needs) forget(before time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.of, func(_ string, e *needed) bool { return e.last.Before(before) })
}

// fromHolder finds a token where none that is good was delivered. It answers at once:
// when there is news of the holder, the service is looked at again. A vote does not
// wait: its creation brought a token, and a later one is voted on again.
func (t *Tokens) fromHolder(d *record.Desired, delivered error) (AccessToken, error) {
	now := t.session.Now()
	have, since, fresh := t.needs.ask(d.Federation, now)
	if fresh {
		t.queue.Add(d.Federation)
	}
	switch {
	case have.good(now):
		return AccessToken{Value: manager.Bearer(have.access), Expires: have.expires}, nil
	case d.Intent == record.IntentPrepare, have.reason == record.ReasonNeedsUserToken:
		return AccessToken{}, delivered
	case have.reason != "":
		return AccessToken{}, &NoTokenError{Reason: have.reason, Message: have.message}
	case now.Sub(since) < holderTimeout:
		return AccessToken{}, &NoTokenError{Reason: record.ReasonNeedsUserToken, Message: "the holder is asked", Pending: true}
	}
	return AccessToken{}, delivered
}

// learn looks anew at the services of a federation when there is news of a token.
func (t *Tokens) learn(federation string, have need) {
	if t.needs.answer(federation, have) {
		t.Arrived(t.session.Mirror.Snapshot(), federation)
	}
}

// reconcileWant says what this cluster wants of the holder, and takes what it is granted.
func (t *Tokens) reconcileWant(ctx context.Context, view *store.MirrorView, federation string, held *heldToken) error {
	key, grantKey := record.WantKey(t.session.ID, federation), record.GrantKey(t.session.ID, federation)
	var want *record.Want
	kv, there := view.KV(key)
	if there {
		var err error
		if want, err = store.Decode[record.Want](kv); err != nil {
			t.session.Log.Error("own want cannot be read; it is written anew", "error", err)
		}
	}
	if !t.needs.known(federation) || held != nil && held.order.Order == record.HoldKeep {
		if there {
			return t.putWant(ctx, key, kv.ModRevision, nil)
		}
		return nil
	}
	if want != nil {
		if kv, ok := view.KV(grantKey); ok {
			grant, err := store.Decode[record.Grant](kv)
			if err != nil {
				t.session.Log.Error("a granted token cannot be read", "error", err)
			} else if grant.Nonce == want.Nonce {
				have := t.open(federation, grant, kv.ModRevision)
				if have.access == "" || have.good(t.session.Now()) {
					t.learn(federation, have)
					return nil
				}
				want = nil // it has expired: another one is wanted
			}
		}
	}
	if want != nil {
		t.learn(federation, need{}) // it is on its way, or was taken back
		return nil
	}
	return t.putWant(ctx, key, kv.ModRevision, &record.Want{V: record.Version, Nonce: rand.Text(), WantedAt: record.At(t.session.Now())})
}

// open takes a granted token out of its envelope.
func (t *Tokens) open(federation string, grant *record.Grant, revision int64) need {
	if grant.Access == "" || grant.Expires == nil {
		return need{reason: grant.Reason, message: grant.Message}
	}
	unusable := need{reason: record.ReasonNeedsUserToken, message: "the access token that the holder granted cannot be opened by this syncer"}
	now := t.session.Now()
	expires, heldAgainst := t.expiry("granted/"+federation, revision, grant.Expires.Time, grant.LifeS, now)
	if !now.Before(expires) {
		return need{access: "expired", expires: expires}
	}
	plain, err := t.session.Identity.Open(grant.Access, seal.Header{Purpose: seal.PurposeGrantedToken, Cluster: t.session.ID, UID: federation}, heldAgainst)
	if err != nil {
		t.session.Log.Error("a granted token cannot be opened", "federation", federation, "error", err)
		return unusable
	}
	var got granted
	if json.Unmarshal(plain, &got) != nil || got.Nonce != grant.Nonce || got.Access == "" {
		t.session.Log.Error("a granted token is the answer to something else", "federation", federation)
		return unusable
	}
	return need{access: got.Access, expires: expires}
}

// putWant writes or, with nil, takes back what is wanted.
func (t *Tokens) putWant(ctx context.Context, key string, revision int64, want *record.Want) error {
	_, err := t.session.Store.Update(ctx, store.Update{Keys: []string{t.session.Lease.Key(), key}, Build: func(v store.View, tx *store.Txn) error {
		if kv, _ := v.KV(key); kv.ModRevision != revision {
			return session.ErrStale
		}
		tx.ExpectSession(t.session.Lease)
		tx.Expect(key)
		if want == nil {
			tx.Delete(key)
		} else {
			tx.Put(key, want)
		}
		return nil
	}})
	return err
}
