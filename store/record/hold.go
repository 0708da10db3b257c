package record

import (
	"strings"
	"time"
)

// The refresh token of a federation's owner rests with one cluster, its holder: that of the
// coordinator. It goes there once, sealed, in a Hold; once the syncer has stored it, it leaves the
// store. The other members get access tokens only, and ask for them: each says what it wants below
// its own prefix (Want), the control plane checks the member and passes the request on to the
// holder (TokenAsk), the holder answers sealed to that member (Grant), and the control plane
// passes the answer back.

// HoldOrder is what a Hold asks of the holder.
type HoldOrder string

// The orders. Revoke and Forget are ends: after them only another token makes the
// holder keep one again.
const (
	// HoldKeep: keep the token of this serial, and answer requests for access tokens.
	HoldKeep HoldOrder = "keep"
	// HoldRevoke: revoke it at its issuer, if that can be done, and delete it.
	HoldRevoke HoldOrder = "revoke"
	// HoldForget: delete it. Its owner may use it elsewhere, or again.
	HoldForget HoldOrder = "forget"
)

// Hold is what is asked of the holder of a federation's refresh token.
type Hold struct {
	V     int       `json:"v"`
	Order HoldOrder `json:"order"`
	// Serial tells one order about a federation's token from the next: the
	// milliseconds of the Unix time at which it was given, or one more than that of
	// the order before. So it does not repeat in a store that was restored.
	Serial    int64  `json:"serial"`
	RequestID string `json:"request_id"`
	// Owner is whose token it is: he has the namespace that it rests in.
	Owner string `json:"owner"`
	// Issuer gave it, and ClientID is the client that it was given to, as far as its owner's
	// access token told; empty for what the holder is configured with.
	Issuer   string `json:"issuer,omitempty"`
	ClientID string `json:"client_id,omitempty"`
	GivenAt  Time   `json:"given_at"`
	// Mark is a keyed hash of the token as its owner gave it: the same one, given
	// again, would take the place of what its issuer gave for it since.
	Mark string `json:"mark,omitempty"`
	// Refresh is the token in an age envelope (base64) to the holder alone; empty
	// once the holder has reported its serial as stored, and with an end.
	Refresh string `json:"refresh,omitempty"`
	// Revoked and Unrevoked are what was reported of the revocation (Holding), when a readmission of the holder
	// deleted that report.
	Revoked   bool   `json:"revoked,omitempty"`
	Unrevoked string `json:"unrevoked,omitempty"`
}

// After is the serial of the order that follows one of h, at a time.
func (h *Hold) After(now time.Time) int64 {
	if h == nil {
		return now.UnixMilli()
	}
	return max(now.UnixMilli(), h.Serial+1)
}

// Ended is the order that ends the holding, given at a time.
func (h *Hold) Ended(order HoldOrder, now time.Time) *Hold {
	next := *h
	next.Order, next.Serial, next.Refresh, next.Mark = order, h.After(now), "", ""
	next.Revoked, next.Unrevoked = false, ""
	return &next
}

// HoldState is how far a holder has come with a Hold.
type HoldState string

// The states. Each speaks of the serial that stands beside it.
const (
	// HoldStored: the token rests in the user's namespace.
	HoldStored HoldState = "stored"
	// HoldWaiting: the order cannot be carried out at present; that is tried again.
	HoldWaiting HoldState = "waiting"
	// HoldFailing: it rests there, and the issuer gives no access token for it at
	// present; that is tried again.
	HoldFailing HoldState = "failing"
	// HoldLost: there is no token that the issuer accepts; only another one helps.
	HoldLost HoldState = "lost"
	// HoldEnded: it is deleted, as ordered. Message tells of its revocation.
	HoldEnded HoldState = "ended"
)

// Holding is the report of the holder.
type Holding struct {
	V      int       `json:"v"`
	State  HoldState `json:"state"`
	Serial int64     `json:"serial"`
	// Revoked says that the issuer has confirmed the revocation, and Unrevoked why it has not and
	// will not be asked again. One of them stands from when that is known, before the token is
	// deleted: afterwards it could not be found out.
	Revoked   bool   `json:"revoked,omitempty"`
	Unrevoked string `json:"unrevoked,omitempty"`
	Reason    Reason `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
	// RenewedAt is when the issuer last gave a new refresh token in place of the one
	// before, to within a day; nil when it never did.
	RenewedAt          *Time `json:"renewed_at,omitempty"`
	LastTransitionTime Time  `json:"last_transition_time"`
}

// Follow is the report that follows before, of the same order; nil for none. It is
// equal to before when it says nothing new.
func (h Holding) Follow(before *Holding) Holding {
	switch {
	case before == nil || before.Serial != h.Serial:
		return h
	case before.State == HoldEnded:
		return *before // it was carried out; a repetition finds nothing to do
	}
	if before.State == h.State {
		h.LastTransitionTime = before.LastTransitionTime
	}
	if h.RenewedAt == nil {
		h.RenewedAt = before.RenewedAt
	}
	if !h.Revoked && h.Unrevoked == "" {
		h.Revoked, h.Unrevoked = before.Revoked, before.Unrevoked
	}
	if h.State == HoldEnded && (h.Revoked || h.Unrevoked != "") {
		h.Message = h.Unrevoked
	}
	return h
}

// Settles says whether the report is about the order as it stands, and whether
// the sealed token, or the order itself, has done its work.
func (h *Holding) Settles(order *Hold) bool {
	if h == nil || h.Serial < order.Serial || h.State == HoldWaiting {
		return false
	}
	return order.Order == HoldKeep || h.State == HoldEnded
}

// KeepsLater says that the order was not carried out because the token that is kept was given after it, in a history
// that the store has lost.
func (h *Holding) KeepsLater() bool {
	return h != nil && h.State == HoldWaiting && h.Reason == ReasonAheadOfDesired
}

// Want is what a member says when it needs an access token of the owner.
type Want struct {
	V int `json:"v"`
	// Nonce tells one want from the next: what is granted names it.
	Nonce    string `json:"nonce" record:"id"`
	WantedAt Time   `json:"wanted_at"`
}

// TokenAsk is a member's want as the control plane passes it on to the holder.
type TokenAsk struct {
	V     int    `json:"v"`
	Nonce string `json:"nonce" record:"id"`
	// Recipient is the age recipient of the member's syncer, which the answer is
	// sealed to; the member itself is named by the key.
	Recipient string `json:"recipient"`
	AskedAt   Time   `json:"asked_at"`
}

// Grant answers a want: first as the holder writes it, then as the control plane
// passes it on.
type Grant struct {
	V     int    `json:"v"`
	Nonce string `json:"nonce" record:"id"`
	// Access is an age envelope (base64) to the member around an access token; empty
	// while there is none.
	Access string `json:"access,omitempty"`
	// Expires is when the access token does.
	Expires *Time `json:"expires,omitempty"`
	// LifeS is how many seconds it had when the holder granted it: its reader counts them from
	// when it first saw the record. Older holders do not say.
	LifeS int64 `json:"life_s,omitempty"`
	// Reason and Message say why there is none.
	Reason    Reason `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
	GrantedAt Time   `json:"granted_at"`
}

// Reading is one use of a refresh token, reported by the syncer that holds it. It is
// written before the token is read, and its outcome added afterwards.
type Reading struct {
	V          int    `json:"v"`
	At         Time   `json:"at"`
	Instance   string `json:"instance"`
	Federation string `json:"federation"`
	Owner      string `json:"owner"`
	Serial     int64  `json:"serial"`
	// Why it was read: ReadExchange or ReadRevoke.
	Why string `json:"why"`
	// Outcome is empty when the process did not live to tell.
	Outcome string `json:"outcome,omitempty"`
}

// Why a refresh token is read.
const (
	ReadExchange = "exchange"
	ReadRevoke   = "revoke"
)

// HoldKey is the order to the holder of a federation's refresh token.
func HoldKey(cluster, federationUID string) string {
	return TokensKey(cluster, federationUID) + "/hold"
}

// HoldingKey is the report of the holder.
func HoldingKey(cluster, federationUID string) string {
	return observedTokens(cluster, federationUID) + "/hold"
}

// TokenAskKey is what a member wants of the holder, which is cluster.
func TokenAskKey(cluster, federationUID, member string) string {
	return TokensKey(cluster, federationUID) + "/asks/" + member
}

// GrantedKey is the holder's answer to that.
func GrantedKey(cluster, federationUID, member string) string {
	return observedTokens(cluster, federationUID) + "/asks/" + member
}

// WantKey is what a member wants of a federation's holder.
func WantKey(cluster, federationUID string) string {
	return observedTokens(cluster, federationUID) + "/want"
}

// GrantKey is what the member gets.
func GrantKey(cluster, federationUID string) string {
	return TokensKey(cluster, federationUID) + "/want"
}

// ReadingsPrefix covers the uses of refresh tokens that a syncer has reported.
func ReadingsPrefix(cluster string) string { return ObservedPrefix(cluster) + "audit/" }

// ReadingKey is one of them; id is a UUIDv7.
func ReadingKey(cluster, id string) string { return ReadingsPrefix(cluster) + id }

// ObservedTokensPrefix covers what a syncer says about tokens.
func ObservedTokensPrefix(cluster string) string { return ObservedPrefix(cluster) + "tokens/" }

func observedTokens(cluster, federationUID string) string {
	return ObservedTokensPrefix(cluster) + federationUID
}

// parseTokens takes apart what follows desired/tokens/ or observed/tokens/.
func parseTokens(r Ref, tail string, desired bool) Ref {
	federation, rest, below := strings.Cut(tail, "/")
	if federation == "" {
		return Ref{}
	}
	r.Name = federation
	member, isAsk := strings.CutPrefix(rest, "asks/")
	switch {
	case !below && desired:
		r.Kind = KindTokens
	case rest == "hold":
		r.Kind = pick(desired, KindHold, KindHolding)
	case rest == "want":
		r.Kind = pick(desired, KindGrant, KindWant)
	case isAsk && member != "":
		r.Kind, r.Rest = pick(desired, KindTokenAsk, KindGranted), member
		return single(r, member)
	default:
		return Ref{}
	}
	return r
}

func pick(desired bool, yes, no Kind) Kind {
	if desired {
		return yes
	}
	return no
}
