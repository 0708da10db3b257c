package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Repeat makes a request that is sent again get the outcome of the first: from any
// instance, and also when the first one died between its transaction and its answer,
// since the transaction that does what was asked writes the record of the request.
type Repeat struct {
	// Key is the caller's Idempotency-Key; empty when he gave none.
	Key string
	// Method and Path of the request: a key is a caller's for one of them.
	Method, Path string
	// Body is everything that decides what the request does. Its hash tells a
	// repeated request from another one with the same key.
	Body string
}

// claim is the place of one request among the records of requests.
type claim struct {
	// hash names the record; empty when the request has none.
	hash, bodyHash string
	// keyed is false for a creation without a key: its record finds the same
	// request only while it is in flight.
	keyed     bool
	requestID string
	// takesAway says that the request only deletes or removes.
	takesAway bool
}

// claimOf is the claim of a change: without a key it has no record.
func claimOf(caller identity.Caller, r Repeat, requestID string) claim {
	return claimFor(caller.Account(), caller, r, requestID)
}

// claimFor is claimOf for a request that is counted for another account.
func claimFor(owner string, caller identity.Caller, r Repeat, requestID string) claim {
	if r.Key == "" {
		return claim{requestID: requestID}
	}
	return claim{hash: requestHash(owner, caller, r, "key:"+r.Key), bodyHash: sha256Hex([]byte(r.Body)), keyed: true, requestID: requestID}
}

// createClaim is the claim of a creation: without a key its body names it, and what
// the request says beside it.
func createClaim(caller identity.Caller, req CreateRequest) claim {
	r := Repeat{Key: req.IdempotencyKey, Method: "POST", Path: "/system/services", Body: string(req.Body)}
	if req.Deployment != "" || req.Plan != "" {
		r.Body = req.Deployment + "\n" + req.Plan + "\n" + r.Body // no definition begins like that
	}
	if r.Key != "" {
		return claimOf(caller, r, req.RequestID)
	}
	body := sha256Hex([]byte(r.Body))
	return claim{hash: requestHash(caller.Account(), caller, r, "body:"+body), bodyHash: body, requestID: req.RequestID}
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

// errAccepted ends a transaction whose request was accepted meanwhile.
var errAccepted = errors.New("the same request was accepted before")

// keys are the keys that a transaction reads for the claim.
func (q claim) keys() []string {
	if q.hash == "" {
		return nil
	}
	return []string{record.RequestKey(q.hash)}
}

// record is the record of the request; answer is nil while its outcome is open.
func (q claim) record(uid string, at record.Time, answer *record.Answer) record.Request {
	return record.Request{
		V: record.Version, BodyHash: q.bodyHash, UID: uid, RequestID: q.requestID, CreatedAt: at, Keyed: q.keyed, Answer: answer,
	}
}

// write puts the record of the request into the transaction that does what it
// asks. That the request is not there already is seen by free, before.
func (q claim) write(tx *store.Txn, uid string, at record.Time, answer *record.Answer) {
	if q.hash == "" {
		return
	}
	tx.Expect(record.RequestKey(q.hash))
	tx.Put(record.RequestKey(q.hash), q.record(uid, at, answer))
}

// free ends a transaction with errAccepted when the same request was accepted meanwhile,
// and with what mayKeep says when it was not.
func (c *ControlPlane) free(q claim, v store.View) error {
	if q.hash == "" {
		return nil
	}
	kv, ok := v.KV(record.RequestKey(q.hash))
	if !ok {
		return c.mayKeep(q)
	}
	r, err := store.Decode[record.Request](kv)
	if err != nil {
		return err
	}
	if !r.Keyed && !c.inFlight(r.UID) {
		return nil
	}
	return errAccepted
}

// accepted is a request that was accepted before, and the revision that its record
// was last written at.
type accepted struct {
	*record.Request
	revision int64
}

// repeated finds the same request, when it was accepted before; nil otherwise. The
// state is then as new as the record: what the request did is seen in it, also by
// an instance that did not do it. The same key with another body is an error.
func (c *ControlPlane) repeated(ctx context.Context, q claim) (*accepted, error) {
	if q.hash == "" {
		return nil, nil
	}
	v, err := c.freshWith(ctx, q.keys()...)
	if err != nil {
		return nil, err
	}
	return c.repetition(v, q)
}

// repetition is repeated for what was read already.
func (c *ControlPlane) repetition(v store.View, q claim) (*accepted, error) {
	kv, ok := v.KV(record.RequestKey(q.hash))
	if !ok {
		return nil, nil
	}
	r, err := store.Decode[record.Request](kv)
	switch {
	case err != nil:
		return nil, err
	case !r.Keyed && !c.inFlight(r.UID):
		return nil, nil
	case r.BodyHash != q.bodyHash:
		return nil, keyReused()
	}
	return &accepted{r, kv.ModRevision}, nil
}

func keyReused() error {
	return &Error{Code: CodeFailedPrecondition, Message: "this Idempotency-Key was used with another body; use a new key for another request"}
}

func (c *ControlPlane) inFlight(uid string) bool {
	found := false
	c.state.read(func(v *View) {
		f, ok := v.federations[uid]
		found = ok && f.rec.Phase.InFlight()
	})
	return found
}

// writeAnswer keeps the outcome of a request for whoever repeats it with its key;
// a request without one is forgotten.
func writeAnswer(hash, uid string, answer *record.Answer, v store.View, tx *store.Txn) error {
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

// answerOf is the outcome of the request whose transaction writes a decision: of the
// federation it has what a repeated request is answered with, since the record itself
// stands beside it in the transaction.
func answerOf(d decision) *record.Answer {
	out := &record.Answer{Phase: d.fed.Phase}
	if d.fed.Phase == record.PhaseDeleting {
		return out // what is asked of it then is answered by the tombstones
	}
	f := *d.fed
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
