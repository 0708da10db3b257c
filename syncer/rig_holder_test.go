package syncer_test

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// holder answers what the cluster wants, as the control plane passes the answers on. It has no
// token until it is given one.
type holder struct {
	rig     *rig
	mu      sync.Mutex
	token   string
	expires time.Time
}

// startHolder answers until the test ends.
func (r *rig) startHolder() *holder {
	h := &holder{rig: r}
	r.run("the holder", h.run)
	return h
}

// give has it answer with a token from now on, or with none for "".
func (h *holder) give(token string, expires time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.token, h.expires = token, expires
}

func (h *holder) run(ctx context.Context) error {
	for {
		if _, err := h.rig.store.Update(ctx, store.Update{
			Keys:  []string{record.WantKey(clusterID, "fed"), record.GrantKey(clusterID, "fed")},
			Build: h.answer,
		}); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// answer grants what is wanted, unless that stands there.
func (h *holder) answer(v store.View, tx *store.Txn) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	kv, ok := v.KV(record.WantKey(clusterID, "fed"))
	if !ok {
		return nil
	}
	want, err := store.Decode[record.Want](kv)
	if err != nil {
		return err
	}
	key := record.GrantKey(clusterID, "fed")
	if kv, ok := v.KV(key); ok {
		had, err := store.Decode[record.Grant](kv)
		if err != nil || had.Nonce == want.Nonce && (had.Access == "") == (h.token == "") {
			return err
		}
	}
	grant := record.Grant{V: record.Version, Nonce: want.Nonce, GrantedAt: record.At(time.Now())}
	if h.token == "" {
		grant.Reason, grant.Message = record.ReasonTokenHolderAway, "nobody holds it"
		tx.Put(key, grant)
		return nil
	}
	body, err := json.Marshal(map[string]string{"nonce": want.Nonce, "access_token": h.token})
	if err != nil {
		return err
	}
	sealed, err := seal.Seal(seal.Header{Purpose: seal.PurposeGrantedToken, Cluster: clusterID, UID: "fed", Expires: h.expires}, body, h.rig.identity.Recipient())
	if err != nil {
		return err
	}
	expires := record.At(h.expires)
	grant.Access, grant.Expires = sealed, &expires
	tx.Put(key, grant)
	return nil
}
