package ownertoken

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer/session"
	"github.com/oscarfed/oscarfed/syncer/token"
)

const (
	// workers is how many federations' tokens are looked after at the same time.
	workers = 16
	// grantsAtOnce is how many members are answered in one transaction.
	grantsAtOnce = 24
	// failingAfter is how many tries in a row fail before that is reported.
	failingAfter = 3
	// renewedSlack is how old the reported time of a renewal may be.
	renewedSlack = 24 * time.Hour
	// triedAgain ends a report of what goes on to fail.
	triedAgain = "; it is tried again"
)

// granted is what the envelope of a Grant holds. The nonce binds it to one want: an
// older grant is no answer.
type granted struct {
	Nonce  string `json:"nonce"`
	Access string `json:"access_token"`
}

// reconcile carries out what the records order about the tokens of one federation, and
// what this cluster needs.
func (t *Tokens) reconcile(ctx context.Context, federation string) (time.Duration, error) {
	view := t.session.Mirror.Snapshot()
	held, err := t.holdIn(view, federation)
	if err != nil {
		return 0, err
	}
	if held != nil {
		if err := t.reconcileHold(ctx, view, held); err != nil {
			return 0, err
		}
	}
	return 0, t.reconcileWant(ctx, view, federation, held)
}

// ReconcileAll looks after all tokens that something is known of.
func (t *Tokens) ReconcileAll(view *store.MirrorView) {
	for _, prefix := range []string{record.TokensPrefix(t.session.ID), record.ObservedTokensPrefix(t.session.ID)} {
		for kv := range view.Prefix(prefix) {
			t.queue.Add(record.ParseKey(kv.Key).Name)
		}
	}
}

// ReconcileServed looks after the tokens of the federation that a service belongs to: a
// token is not stored before something stands here.
func (t *Tokens) ReconcileServed(view *store.MirrorView, service string) {
	kv, ok := view.KV(record.DesiredServiceKey(t.session.ID, service))
	if !ok {
		return
	}
	d, err := store.Decode[record.Desired](kv)
	if err != nil {
		return // the decision about the service tells
	}
	if _, ok := view.KV(record.HoldKey(t.session.ID, d.Federation)); ok {
		t.queue.Add(d.Federation)
	}
}

// heldToken is an order to hold a token, with what was reported of it.
type heldToken struct {
	federation string
	order      *record.Hold
	revision   int64
	report     *record.Holding
}

func (h *heldToken) of() token.Key { return token.Key{Owner: h.order.Owner, Federation: h.federation} }

// reported is the report about the order as it stands; nil when there is none.
func (h *heldToken) reported() *record.Holding {
	if h.report == nil || h.report.Serial < h.order.Serial {
		return nil
	}
	return h.report
}

// holdIn is the order for a federation; nil when there is none.
func (t *Tokens) holdIn(view *store.MirrorView, federation string) (*heldToken, error) {
	kv, ok := view.KV(record.HoldKey(t.session.ID, federation))
	if !ok {
		return nil, nil
	}
	order, err := store.Decode[record.Hold](kv)
	if err != nil {
		return nil, err
	}
	h := &heldToken{federation: federation, order: order, revision: kv.ModRevision}
	if kv, ok := view.KV(record.HoldingKey(t.session.ID, federation)); ok {
		if h.report, err = store.Decode[record.Holding](kv); err != nil {
			t.session.Log.Error("own report cannot be read; it is written anew", "error", err)
			h.report = nil
		}
	}
	return h, nil
}

// reconcileHold carries an order out.
func (t *Tokens) reconcileHold(ctx context.Context, view *store.MirrorView, h *heldToken) error {
	report := h.reported()
	switch {
	case t.session.Restored(t.session.DesiredCluster(view)):
		return fmt.Errorf("%w: the store was restored, and nothing is concluded from it yet", session.ErrStale)
	case record.Strange(h.order) != "":
		return fmt.Errorf("the order about a refresh token has the %s: the control plane is of a newer version, and the token stays as it is", record.Strange(h.order))
	case h.order.Order != record.HoldKeep:
		if report != nil && report.State == record.HoldEnded {
			return nil
		}
		return t.dropToken(ctx, h)
	case report == nil, report.State == record.HoldWaiting:
		if !t.applies(view, h.federation) {
			return nil // it may come to nothing; the change of the service queues it again
		}
		return t.takeToken(ctx, h)
	case report.State == record.HoldLost:
		t.keeper.Lost(h.of(), report.Serial, report.Message)
		if t.needs.wanted(h.federation) {
			t.learn(h.federation, need{reason: record.ReasonTokenLost, message: report.Message})
		}
		return nil
	}
	return t.answer(ctx, view, h)
}

// applies says whether a service of the federation is to stand here.
func (t *Tokens) applies(view *store.MirrorView, federation string) bool {
	for _, d := range t.session.OfFederation(view, federation) {
		if d.Intent == record.IntentApply {
			return true
		}
	}
	return false
}

// takeToken stores the token of an order, and reports that: then it leaves the store.
func (t *Tokens) takeToken(ctx context.Context, h *heldToken) error {
	if h.order.Refresh == "" {
		return t.findToken(ctx, h)
	}
	plain, err := t.session.Identity.Open(h.order.Refresh, seal.Header{
		Purpose: seal.PurposeRefreshToken, Cluster: t.session.ID, UID: h.federation, Generation: h.order.Serial,
	}, t.session.Now())
	if err != nil {
		t.session.Log.Error("a refresh token cannot be opened", "federation", h.federation, "error", err)
		return t.reportHolding(ctx, h, lostToken("the syncer cannot open the refresh token that it was sent; give it again"))
	}
	err = t.keeper.Hold(ctx, h.of(), token.Given{
		Serial: h.order.Serial, Refresh: string(plain), Issuer: h.order.Issuer, ClientID: h.order.ClientID, GivenAt: h.order.GivenAt.Time,
	})
	switch {
	case errors.Is(err, token.ErrNoVault):
		return t.reportHolding(ctx, h, lostToken("the syncer of this cluster has no Kubernetes, so it has no place for refresh tokens"))
	case err != nil:
		return fmt.Errorf("store a refresh token: %w", errors.Join(err, t.reportWaiting(ctx, h, err)))
	}
	return t.reportHolding(ctx, h, record.Holding{State: record.HoldStored})
}

// findToken reports on a token that has left the store. It left when it was reported as stored: a
// readmission of the cluster deletes that report, but not the token.
func (t *Tokens) findToken(ctx context.Context, h *heldToken) error {
	keeps, err := t.keeper.Keeps(ctx, h.of(), h.order.Serial)
	switch {
	case err != nil:
		return fmt.Errorf("look for a refresh token: %w", errors.Join(err, t.reportWaiting(ctx, h, err)))
	case !keeps:
		return t.reportHolding(ctx, h, lostToken("the sealed refresh token is not in the store any more, and this cluster has not stored it; give it again"))
	}
	return t.reportHolding(ctx, h, record.Holding{State: record.HoldStored})
}

func lostToken(message string) record.Holding {
	return record.Holding{State: record.HoldLost, Reason: record.ReasonTokenLost, Message: message}
}

// dropToken ends the holding of a token. It may be interrupted anywhere, and done again.
func (t *Tokens) dropToken(ctx context.Context, h *heldToken) error {
	ended := record.Holding{State: record.HoldEnded}
	var err error
	if h.order.Order == record.HoldRevoke {
		_, err = t.keeper.Revoke(ctx, h.of(), h.order.Serial, func(ctx context.Context, r token.Revocation) error {
			_, err := t.writeHolding(ctx, h, record.Holding{State: record.HoldWaiting, Revoked: r.Revoked, Unrevoked: r.Message,
				Message: "its revocation is over; it is deleted where it rests"})
			return err
		})
		if errors.Is(err, token.ErrNone) {
			// What was reported of its revocation, if it ever was there, says more.
			ended.Message, err = "no token was there", nil
			if h.order.Revoked || h.order.Unrevoked != "" {
				ended.Revoked, ended.Unrevoked, ended.Message = h.order.Revoked, h.order.Unrevoked, h.order.Unrevoked
			}
		}
	} else {
		err = t.keeper.Forget(ctx, h.of(), h.order.Serial)
	}
	switch {
	case errors.Is(err, token.ErrLater):
		return t.reportHolding(ctx, h, record.Holding{State: record.HoldWaiting, Reason: record.ReasonAheadOfDesired,
			Message: "a refresh token is kept that was given after this order, in a history that the store has lost; delete it again, or give one"})
	case err != nil:
		return fmt.Errorf("end the holding of a refresh token: %w", errors.Join(err, t.reportWaiting(ctx, h, err)))
	}
	return t.reportHolding(ctx, h, ended)
}

// reportWaiting reports that an order could not be carried out again and again.
func (t *Tokens) reportWaiting(ctx context.Context, h *heldToken, err error) error {
	if t.queue.Retries(h.federation) < failingAfter {
		return nil
	}
	return t.reportHolding(ctx, h, record.Holding{State: record.HoldWaiting, Message: err.Error() + triedAgain})
}

// answer gives an access token to the members that ask for one through the control plane, and
// to this cluster itself.
func (t *Tokens) answer(ctx context.Context, view *store.MirrorView, h *heldToken) error {
	asks := t.unanswered(view, h.federation)
	local := t.needs.wanted(h.federation)
	if len(asks) == 0 && !local {
		return t.rests(ctx, h)
	}
	access, err := t.keeper.Access(ctx, h.of(), h.order.Serial)
	lost, isLost := errors.AsType[*token.LostError](err)
	switch {
	case isLost:
		t.learn(h.federation, need{reason: record.ReasonTokenLost, message: lost.Message})
		return t.reportHolding(ctx, h, lostToken(lost.Message))
	case err != nil:
		if t.queue.Retries(h.federation) >= failingAfter {
			t.learn(h.federation, need{reason: record.ReasonTokenHolderAway, message: err.Error()})
			failing := record.Holding{State: record.HoldFailing, Reason: record.ReasonTokenHolderAway, Message: err.Error() + triedAgain}
			err = errors.Join(err, t.reportHolding(ctx, h, failing))
		}
		return err
	}
	if local {
		t.learn(h.federation, need{access: access.Token, expires: access.Expires})
	}
	for some := range slices.Chunk(asks, grantsAtOnce) {
		if err := t.grant(ctx, h, some, access); err != nil {
			return err
		}
	}
	next := record.Holding{State: record.HoldStored, RenewedAt: h.report.RenewedAt}
	if !access.RenewedAt.IsZero() && (next.RenewedAt == nil || access.RenewedAt.Sub(next.RenewedAt.Time) > renewedSlack) {
		at := record.At(access.RenewedAt)
		next.RenewedAt = &at
	}
	return t.reportHolding(ctx, h, next)
}

// rests reports of a token that gave no access token when one was needed last, and that nothing needs any more: it is not
// tried again before that. What needs one has said so when a session is some time old.
func (t *Tokens) rests(ctx context.Context, h *heldToken) error {
	if h.report.State != record.HoldFailing || t.session.Now().Sub(t.session.Started) < needsKept {
		return nil
	}
	why := strings.TrimSuffix(h.report.Message, triedAgain)
	return t.reportHolding(ctx, h, record.Holding{State: record.HoldStored,
		Message: "when an access token was needed last, there was none: " + why + "; it is tried again when one is needed"})
}

// asking is one member's ask.
type asking struct {
	member   string
	ask      record.TokenAsk
	revision int64
}

// unanswered lists the asks that have no grant yet.
func (t *Tokens) unanswered(view *store.MirrorView, federation string) []asking {
	var out []asking
	prefix := record.TokenAskKey(t.session.ID, federation, "")
	for kv := range view.Prefix(prefix) {
		ask, err := store.Decode[record.TokenAsk](kv)
		if err != nil {
			t.session.Log.Error("a member's ask for a token cannot be read", "error", err)
			continue
		}
		member := strings.TrimPrefix(kv.Key, prefix)
		if kv, ok := view.KV(record.GrantedKey(t.session.ID, federation, member)); ok {
			if given, err := store.Decode[record.Grant](kv); err == nil && given.Nonce == ask.Nonce {
				continue
			}
		}
		out = append(out, asking{member: member, ask: *ask, revision: kv.ModRevision})
	}
	return out
}

// grant seals an access token to each of some members. The envelope is for the member
// that the ask's own key names: when it is sealed to another recipient by mistake, it cannot
// be opened as that recipient's grant.
func (t *Tokens) grant(ctx context.Context, h *heldToken, some []asking, access token.Access) error {
	grants := make([]record.Grant, len(some))
	expires := record.At(access.Expires)
	for i, one := range some {
		body, err := json.Marshal(granted{Nonce: one.ask.Nonce, Access: access.Token})
		if err != nil {
			return err
		}
		grants[i] = record.Grant{V: record.Version, Nonce: one.ask.Nonce, GrantedAt: record.At(t.session.Now())}
		sealed, err := seal.Seal(seal.Header{
			Purpose: seal.PurposeGrantedToken, Cluster: one.member, UID: h.federation, Generation: h.order.Serial, Expires: expires.Time,
		}, body, one.ask.Recipient)
		if err != nil {
			t.session.Log.Error("an access token cannot be sealed to a member", "member", one.member, "error", err)
			grants[i].Reason, grants[i].Message = record.ReasonNeedsUserToken, "the holder cannot seal a token to this cluster's key"
			continue
		}
		grants[i].Access, grants[i].Expires = sealed, &expires
		grants[i].LifeS = int64(access.Expires.Sub(t.session.Now()) / time.Second)
	}
	keys := []string{t.session.Lease.Key()}
	for _, one := range some {
		keys = append(keys, record.TokenAskKey(t.session.ID, h.federation, one.member))
	}
	_, err := t.session.Store.Update(ctx, store.Update{Keys: keys, Build: func(v store.View, tx *store.Txn) error {
		tx.ExpectSession(t.session.Lease)
		for i, one := range some {
			key := record.TokenAskKey(t.session.ID, h.federation, one.member)
			if kv, ok := v.KV(key); !ok || kv.ModRevision != one.revision {
				continue // taken back, or asked anew
			}
			tx.Expect(key)
			tx.Put(record.GrantedKey(t.session.ID, h.federation, one.member), grants[i])
		}
		return nil
	}})
	return err
}

// reportHolding reports, and waits until the mirror shows it: what is done next is
// decided on that.
func (t *Tokens) reportHolding(ctx context.Context, h *heldToken, next record.Holding) error {
	revision, err := t.writeHolding(ctx, h, next)
	if err != nil {
		return err
	}
	return t.session.Mirror.Wait(ctx, revision)
}

// writeHolding writes a report about the order as it stands, when it says something
// new, and gives the revision that has it.
func (t *Tokens) writeHolding(ctx context.Context, h *heldToken, next record.Holding) (int64, error) {
	next.V, next.Serial, next.LastTransitionTime = record.Version, h.order.Serial, record.At(t.session.Now())
	holdKey, key := record.HoldKey(t.session.ID, h.federation), record.HoldingKey(t.session.ID, h.federation)
	res, err := t.session.Store.Update(ctx, store.Update{Keys: []string{t.session.Lease.Key(), holdKey, key}, Build: func(v store.View, tx *store.Txn) error {
		kv, ok := v.KV(holdKey)
		order, err := store.Decode[record.Hold](kv)
		if !ok || err != nil || order.Serial != h.order.Serial || order.Order != h.order.Order {
			return session.ErrStale
		}
		var before *record.Holding
		if kv, ok := v.KV(key); ok {
			before, _ = store.Decode[record.Holding](kv) // one that cannot be read is written anew
		}
		tx.ExpectSession(t.session.Lease)
		tx.Expect(holdKey)
		tx.Expect(key)
		tx.Put(key, next.Follow(before))
		return nil
	}})
	return res.Revision, err
}
