package request

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Repeat identifies a request that may be sent again. The repeated request gets the outcome of
// the first from any instance, also when the first instance died between its transaction and
// its answer: the transaction that carries out the request writes the record of the request,
// too.
type Repeat struct {
	// Key is the caller's Idempotency-Key; empty when he gave none.
	Key string
	// Method and Path of the request: a key is a caller's for one of them.
	Method, Path string
	// Body is everything that decides what the request does. Its hash tells a
	// repeated request from another one with the same key.
	Body string
}

// Claim is the record of one request among the records of requests.
type Claim struct {
	// Hash is the key of the record; empty when the request has none.
	Hash, BodyHash string
	// keyed is false for a creation without a key: its record finds the same
	// request only while it is in flight.
	keyed     bool
	RequestID string
	// TakesAway says that the request only deletes or removes.
	TakesAway bool
}

// ClaimOf is the claim of a change: without a key it has no record.
func ClaimOf(caller identity.Caller, r Repeat, requestID string) Claim {
	return ClaimFor(caller.Account(), caller, r, requestID)
}

// ClaimFor is ClaimOf for a request that counts for another account.
func ClaimFor(owner string, caller identity.Caller, r Repeat, requestID string) Claim {
	if r.Key == "" {
		return Claim{RequestID: requestID}
	}
	return Claim{Hash: requestHash(owner, caller, r, "key:"+r.Key), BodyHash: sha256Hex([]byte(r.Body)), keyed: true, RequestID: requestID}
}

// CreateClaim is the claim of a creation: without a key its body names it.
func CreateClaim(caller identity.Caller, r Repeat, requestID string) Claim {
	if r.Key != "" {
		return ClaimOf(caller, r, requestID)
	}
	body := sha256Hex([]byte(r.Body))
	return Claim{Hash: requestHash(caller.Account(), caller, r, "body:"+body), BodyHash: body, RequestID: requestID}
}

// requestHash names the record of a request, which is counted for the account owner.
func requestHash(owner string, caller identity.Caller, r Repeat, key string) string {
	h := sha256.New()
	for _, part := range []string{caller.Account(), r.Method, r.Path, key} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return ownerOfRequest(owner) + hex.EncodeToString(h.Sum(nil))[ownerDigits:]
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// ErrAccepted ends a transaction whose request was accepted meanwhile.
var ErrAccepted = errors.New("the same request was accepted before")

// Keys lists the keys that a transaction reads for the claim.
func (q Claim) Keys() []string {
	if q.Hash == "" {
		return nil
	}
	return []string{record.RequestKey(q.Hash)}
}

// record is the record of the request; answer is nil while its outcome is open.
func (q Claim) record(uid string, at record.Time, answer *record.Answer) record.Request {
	return record.Request{
		V: record.Version, BodyHash: q.BodyHash, UID: uid, RequestID: q.RequestID, CreatedAt: at, Keyed: q.keyed, Answer: answer,
	}
}

// Write puts the record of the request into the transaction that carries it out. Free has
// checked before that the record is not there already.
func (q Claim) Write(tx *store.Txn, uid string, at record.Time, answer *record.Answer) {
	if q.Hash == "" {
		return
	}
	tx.Expect(record.RequestKey(q.Hash))
	tx.Put(record.RequestKey(q.Hash), q.record(uid, at, answer))
}

// Free ends a transaction with ErrAccepted when the same request was accepted meanwhile, and
// otherwise with the error of MayKeep, if any.
func (c *Controller) Free(q Claim, v store.View) error {
	if q.Hash == "" {
		return nil
	}
	kv, ok := v.KV(record.RequestKey(q.Hash))
	if !ok {
		return c.MayKeep(q)
	}
	r, err := store.Decode[record.Request](kv)
	if err != nil {
		return err
	}
	if !r.Keyed && !c.InFlight(r.UID) {
		return nil
	}
	return ErrAccepted
}

// Accepted is a request that was accepted before, with the revision of the last write of its
// record.
type Accepted struct {
	*record.Request
	Revision int64
}

// Repeated finds the same request when it was accepted before; nil otherwise. The state is then
// at least as new as the record, so it shows what the request did, also on another instance.
// The same key with another body is an error.
func (c *Controller) Repeated(ctx context.Context, q Claim) (*Accepted, error) {
	if q.Hash == "" {
		return nil, nil
	}
	v, err := c.gate.FreshWith(ctx, q.Keys()...)
	if err != nil {
		return nil, err
	}
	return c.Repetition(v, q)
}

// Repetition is Repeated for a record that was read already.
func (c *Controller) Repetition(v store.View, q Claim) (*Accepted, error) {
	kv, ok := v.KV(record.RequestKey(q.Hash))
	if !ok {
		return nil, nil
	}
	r, err := store.Decode[record.Request](kv)
	switch {
	case err != nil:
		return nil, err
	case !r.Keyed && !c.InFlight(r.UID):
		return nil, nil
	case r.BodyHash != q.BodyHash:
		return nil, KeyReused()
	}
	return &Accepted{r, kv.ModRevision}, nil
}

// KeyReused refuses an Idempotency-Key that came with another request before.
func KeyReused() error {
	return &fault.Error{Code: fault.CodeFailedPrecondition, Message: "this Idempotency-Key was used with another body; use a new key for another request"}
}

// InFlight says whether the outcome of a federation's creation is open.
func (c *Controller) InFlight(uid string) bool {
	found := false
	c.state.Read(func(v *view.View) {
		f, ok := v.Federations.Lookup(uid)
		found = ok && f.Rec.Phase.InFlight()
	})
	return found
}

// WriteAnswer keeps the outcome of a request for repetitions with its key; the record of a
// request without a key is deleted.
func WriteAnswer(hash, uid string, answer *record.Answer, v store.View, tx *store.Txn) error {
	key := record.RequestKey(hash)
	kv, ok := v.KV(key)
	if !ok {
		return nil
	}
	req, err := store.Decode[record.Request](kv)
	if err != nil {
		return err
	}
	if req.UID != uid || req.Answer != nil {
		return nil
	}
	if !req.Keyed {
		tx.Delete(key)
		return nil
	}
	req.Answer = answer
	tx.Put(key, req)
	return nil
}

// AnswerOf is the outcome of the request whose transaction writes a decision. Of the federation
// it has only what the answer to a repeated request needs: the federation's record is in the
// same transaction.
func AnswerOf(d decide.Decision) *record.Answer {
	out := &record.Answer{Phase: d.Fed.Phase}
	if d.Fed.Phase == record.PhaseDeleting {
		return out // what is asked of it then is answered by the tombstones
	}
	f := *d.Fed
	f.AllowedUsers, f.Change, f.Leaving = nil, nil, nil
	switch {
	case f.Phase.Result():
		f.Members = replicasOf(f.Members)
	case f.Refused != nil:
		refused := *f.Refused
		refused.Members, f.Members = replicasOf(refused.Members), nil
		f.Refused = &refused
	}
	out.Federation = &f
	return out
}

func replicasOf(members []record.Member) []record.Member {
	return slices.DeleteFunc(slices.Clone(members), func(m record.Member) bool { return !m.Replica() })
}
