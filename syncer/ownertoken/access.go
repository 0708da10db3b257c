package ownertoken

import (
	"fmt"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/token"
)

// The service of a user is made with his own access token: so it is his on the
// cluster's OSCAR, in his namespace. The token is used for that POST, and for the
// vote that asks OSCAR whether it would take it. Where a worker uses the storage of its
// origin, it also gets the owner's keys there, and posts the jobs whose events name no
// user.

// AccessToken is an access token of an owner.
type AccessToken struct {
	Value   manager.Bearer
	Expires time.Time
}

// NoTokenError says why there is no token.
type NoTokenError struct {
	Reason  record.Reason
	Message string
	// Pending says that one is on its way: nothing is reported yet.
	Pending bool
}

// Error implements error.
func (e *NoTokenError) Error() string { return string(e.Reason) + ": " + e.Message }

// TokenSlack is how long a token must still be good.
const TokenSlack = token.Slack

// Access finds an access token of a service's owner. It answers at once.
func (t *Tokens) Access(d *record.Desired, now time.Time) (AccessToken, error) {
	token, err := t.delivered(d, now)
	if err == nil {
		return token, nil
	}
	return t.fromHolder(d, err)
}

// Delivered tells that a token came with a request of the owner's. It ages from now on, also if nothing here needs it yet.
func (t *Tokens) Delivered(view *store.MirrorView, federation string) {
	if kv, ok := view.KV(record.TokensKey(t.session.ID, federation)); ok {
		t.seen.Since(deliveredKey(federation), strconv.FormatInt(kv.ModRevision, 10), t.session.Now())
	}
	t.Arrived(view, federation)
}

func deliveredKey(federation string) string { return "delivered/" + federation }

// delivered is the token that came with a request of the owner's.
func (t *Tokens) delivered(d *record.Desired, now time.Time) (AccessToken, error) {
	kv, ok := t.session.Mirror.Snapshot().KV(record.TokensKey(t.session.ID, d.Federation))
	if !ok {
		return AccessToken{}, NeedsToken("the service is made with its owner's access token, and none was delivered to this cluster")
	}
	rec, err := store.Decode[record.Tokens](kv)
	if err != nil {
		t.session.Log.Error("an access token cannot be read", "error", err)
		return AccessToken{}, NeedsToken("the access token that was delivered cannot be read")
	}
	expires, heldAgainst := t.expiry(deliveredKey(d.Federation), kv.ModRevision, rec.Expires.Time, rec.LifeS, now)
	if !now.Add(TokenSlack).Before(expires) {
		return AccessToken{}, NeedsToken(fmt.Sprintf("the owner's access token expired at %s", rec.Expires.UTC().Format(time.RFC3339)))
	}
	// Any generation will do: the owner of a federation never changes.
	plain, err := t.session.Identity.Open(rec.Access, seal.Header{Purpose: seal.PurposeAccessToken, Cluster: t.session.ID, UID: d.Federation}, heldAgainst.Add(TokenSlack))
	if err != nil {
		t.session.Log.Error("an access token cannot be opened", "federation", d.Federation, "error", err)
		return AccessToken{}, NeedsToken("the access token that was delivered cannot be opened by this syncer")
	}
	return AccessToken{Value: manager.Bearer(plain), Expires: expires}, nil
}

// expiry is when a token ends by our clock, and the time that the end in its envelope is
// compared with. A token that came in this session is counted from when it was first seen, since
// its end is by another clock. The age of an older token is not known, so its end is believed.
func (t *Tokens) expiry(key string, revision int64, end time.Time, life int64, now time.Time) (expires, heldAgainst time.Time) {
	if life <= 0 || revision < t.session.Lease.CreateRevision() {
		return end, now
	}
	return t.seen.Since(key, strconv.FormatInt(revision, 10), now).Add(time.Duration(life) * time.Second), time.Time{}
}

// NeedsToken says that there is no token, and how its owner brings one.
func NeedsToken(message string) *NoTokenError {
	return &NoTokenError{Reason: record.ReasonNeedsUserToken, Message: message + "; any change by the owner, also one that changes nothing, brings a fresh one"}
}
