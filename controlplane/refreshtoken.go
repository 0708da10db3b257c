package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// States of a federation's refresh token. Stored, failing and lost are those that its
// holder reports.
const (
	TokenNone     = "none"
	TokenStoring  = "storing"
	TokenStored   = string(record.HoldStored)
	TokenFailing  = string(record.HoldFailing)
	TokenLost     = string(record.HoldLost)
	TokenDeleting = "deleting"
	TokenDeleted  = "deleted"
)

// States of a member: the holder; one that wants nothing; one that wants a token; one
// that has got one; one that is told why it gets none.
const (
	MemberHolds   = "holds"
	MemberIdle    = "idle"
	MemberWaits   = "waits"
	MemberGranted = "granted"
	MemberRefused = "refused"
)

// RefreshTokenRequest gives a federation a refresh token of its owner.
type RefreshTokenRequest struct {
	ClusterID string
	Token     string
	// Issuer and Client say who gave it, and to whom. Empty takes them from the
	// caller's own access token.
	Issuer, Client string
	RequestID      string
}

// RefreshToken is how the refresh token of a federation stands.
type RefreshToken struct {
	State string
	// Holder is the cluster that holds it, or shall.
	Holder  string
	Reason  record.Reason
	Message string
	// GivenAt and RenewedAt are zero when there is none, and when the issuer never
	// gave another one in its place; RenewedAt is true to within a day.
	GivenAt, RenewedAt time.Time
	// OldAt is when it is to be replaced; zero for never.
	OldAt time.Time
	// Revoked says of a deleted one that its issuer has confirmed the revocation.
	Revoked bool
	// Waiting are the members, as cluster/service, that want an access token for it and
	// have none. Only Federation tells them.
	Waiting []string
}

// MemberToken is what a member of a federation has of it.
type MemberToken struct {
	ClusterID, ServiceName string
	State                  string
	Reason                 record.Reason
	Message                string
	// Expires is when a granted access token does.
	Expires time.Time
}

// RefreshTokenStatus is a refresh token with what each member has of it.
type RefreshTokenStatus struct {
	RefreshToken
	GroupID, UID string
	Members      []MemberToken
}

// RefreshToken shows how the refresh token of a service's federation stands, to those
// who may change it.
func (c *ControlPlane) RefreshToken(ctx context.Context, caller identity.Caller, service, clusterID string) (*RefreshTokenStatus, error) {
	if err := c.fresh(ctx); err != nil {
		return nil, err
	}
	p, err := c.tokenPlace(caller, service, clusterID)
	if err != nil {
		return nil, err
	}
	return c.refreshTokenStatus(p), nil
}

// GiveRefreshToken orders the holder of a federation to keep a refresh token, in the
// place of the one before. The same one again, while it is kept, changes nothing: its
// issuer may have given others in its place since, and it would be the end of those.
func (c *ControlPlane) GiveRefreshToken(ctx context.Context, caller identity.Caller, service string, req RefreshTokenRequest) (*RefreshTokenStatus, error) {
	if err := checkRefreshToken(req.Token, ""); err != nil {
		return nil, err
	}
	release, err := c.roomToAdd(registrationBytes)
	if err != nil {
		return nil, err
	}
	defer release()
	token := offered(caller, req.Token)
	if req.Issuer != "" {
		token.issuer, token.client = req.Issuer, req.Client
	} else if req.Client != "" {
		token.client = req.Client
	}
	return c.orderHold(ctx, caller, service, req.ClusterID, c.keeping(token, requestID(req.RequestID)))
}

// keeping is the order to keep a token, unless it is the one that is kept.
func (c *ControlPlane) keeping(token offeredToken, requestID string) nextHold {
	return func(fed *record.Federation, holder string, before *record.Hold, lost bool) (*record.Hold, error) {
		if before != nil && before.Order == record.HoldKeep && before.Mark == c.markOf(token.token) && !lost {
			return nil, nil
		}
		var recipient string
		c.state.read(func(v *View) { recipient = v.recipient(holder) })
		if recipient == "" {
			return nil, &Error{Code: CodeUnavailable, Message: fmt.Sprintf("no syncer of cluster %s has ever connected, so that nothing can be sealed to it", holder)}
		}
		return c.newHold(fed, holder, recipient, requestID, token, before)
	}
}

// DropRefreshToken orders the holder to revoke the refresh token of a federation at its
// issuer, and to delete it. Members get no access tokens any more; those that they
// have are good until they expire.
func (c *ControlPlane) DropRefreshToken(ctx context.Context, caller identity.Caller, service, clusterID, request string) (*RefreshTokenStatus, error) {
	return c.orderHold(ctx, caller, service, clusterID, func(_ *record.Federation, _ string, before *record.Hold, _ bool) (*record.Hold, error) {
		if before == nil || before.Order == record.HoldRevoke {
			return nil, nil
		}
		next := before.Ended(record.HoldRevoke, c.cfg.Now())
		next.RequestID = requestID(request)
		return next, nil
	})
}

// tokenPlace finds the federation that a request about its token means.
func (c *ControlPlane) tokenPlace(caller identity.Caller, service, clusterID string) (place, error) {
	p, err := c.find(caller, service, clusterID)
	switch {
	case err != nil:
		return p, err
	case p.rec.Phase.Result() || p.rec.Coordinator() == nil:
		return p, notFound(fmt.Sprintf("there is no service %q", service))
	case !caller.MayChange(p.rec.Owner):
		return p, &Error{Code: CodeForbidden, Message: fmt.Sprintf("service %q can be changed by its owner only", service)}
	}
	return p, nil
}

// nextHold makes the next order about a federation's token of the one that stands;
// nil leaves that one. lost says that its holder has lost the token.
type nextHold func(fed *record.Federation, holder string, before *record.Hold, lost bool) (*record.Hold, error)

// orderHold writes what next makes of the order that stands.
func (c *ControlPlane) orderHold(ctx context.Context, caller identity.Caller, service, clusterID string, next nextHold) (*RefreshTokenStatus, error) {
	tries := newRetries()
	for {
		if err := c.fresh(ctx); err != nil {
			return nil, err
		}
		p, err := c.tokenPlace(caller, service, clusterID)
		if err != nil {
			return nil, err
		}
		if word := record.Strange(p.rec); word != "" {
			return nil, newerVersion(fmt.Sprintf("federation %q", p.rec.GroupID), word)
		}
		if p.rec.Phase != record.PhaseReady && p.rec.Phase != record.PhaseApplying {
			return nil, &Error{Code: CodeConflict, Message: fmt.Sprintf("federation %q is %s; wait for its outcome", p.rec.GroupID, p.rec.Phase)}
		}
		err = c.writeHold(ctx, p, caller.Subject, next)
		if errors.Is(err, errStale) {
			if err := tries.next(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, crossing(err)
		}
		return c.refreshTokenStatus(p), nil
	}
}

func (c *ControlPlane) writeHold(ctx context.Context, p place, by string, next nextHold) error {
	fedKey := record.FederationKey(p.uid)
	res, err := c.store.Update(ctx, store.Update{
		Keys: append(holdKeys(p.rec), fedKey),
		Build: func(v store.View, tx *store.Txn) error {
			if kv, ok := v.KV(fedKey); !ok || kv.ModRevision != p.rev {
				return errStale
			}
			return c.putHold(v, tx, p.rec, by, next)
		},
	})
	if err != nil {
		return err
	}
	return c.shows(ctx, res.Revision)
}

// holdKeys are the keys that putHold reads: the order to the holder, and its report.
func holdKeys(f *record.Federation) []string {
	holder := f.Coordinator().ClusterID
	return []string{record.HoldKey(holder, f.UID), record.HoldingKey(holder, f.UID)}
}

// putHold puts what next makes of the order that stands into a transaction that has
// read holdKeys, and found the federation to be as f says.
func (c *ControlPlane) putHold(v store.View, tx *store.Txn, f *record.Federation, by string, next nextHold) error {
	holder := f.Coordinator().ClusterID
	key := record.HoldKey(holder, f.UID)
	var before *record.Hold
	lost := false
	if kv, ok := v.KV(key); ok {
		// What cannot be read is written anew.
		before, _ = store.Decode[record.Hold](kv)
	}
	if kv, ok := v.KV(record.HoldingKey(holder, f.UID)); ok && before != nil {
		report, err := store.Decode[record.Holding](kv)
		lost = err == nil && report.Serial >= before.Serial && report.State == record.HoldLost
	}
	rec, err := next(f, holder, before, lost)
	if err != nil || rec == nil {
		return err
	}
	tx.Expect(record.FederationKey(f.UID))
	tx.Expect(key)
	tx.Put(key, rec)
	entry := entryOf(*f, record.ActionGiveToken, record.OutcomeAccepted)
	entry.By, entry.RequestID, entry.ClusterID, entry.Detail = by, rec.RequestID, holder, ""
	if rec.Order != record.HoldKeep {
		entry.Action = record.ActionDeleteToken
	}
	note(tx, c.cfg.Now(), entry)
	return nil
}

func (c *ControlPlane) refreshTokenStatus(p place) *RefreshTokenStatus {
	out := &RefreshTokenStatus{GroupID: p.rec.GroupID, UID: p.uid}
	c.state.read(func(v *View) {
		out.RefreshToken = v.refreshToken(p.rec, c.cfg.RefreshTokenMaxAge)
		custody := v.custody[p.uid]
		for _, m := range p.rec.Members {
			if m.Replica() {
				out.Members = append(out.Members, custody.member(m, out.RefreshToken))
			}
		}
	})
	return out
}

func (v *View) refreshToken(f *record.Federation, maxAge time.Duration) RefreshToken {
	out := RefreshToken{State: TokenNone}
	if at := f.Coordinator(); at != nil {
		out.Holder = at.ClusterID
	}
	holder, hold := v.custody[f.UID].hold()
	if hold.rec == nil {
		return out
	}
	out.Holder = holder
	report := v.custody[f.UID].holdings[holder].rec
	if report != nil && report.Serial < hold.rec.Serial {
		report = nil
	}
	if report != nil && report.State == record.HoldWaiting {
		out.Reason, out.Message, report = report.Reason, report.Message, nil
	}
	if report != nil {
		out.State, out.Reason, out.Message = string(report.State), report.Reason, report.Message
		if report.RenewedAt != nil {
			out.RenewedAt = report.RenewedAt.Time
		}
	}
	if hold.rec.Order != record.HoldKeep {
		if out.State = TokenDeleting; report != nil && report.State == record.HoldEnded {
			out.State, out.Revoked = TokenDeleted, report.Revoked
		}
	} else {
		out.GivenAt = hold.rec.GivenAt.Time
		if report == nil {
			out.State = TokenStoring
		}
		if maxAge > 0 {
			out.OldAt = latest(out.GivenAt, out.RenewedAt).Add(maxAge)
		}
	}
	if (out.State == TokenDeleting || out.State == TokenStoring || out.State == TokenFailing) && !v.alive(holder) {
		out.Reason, out.Message = record.ReasonSessionLost, fmt.Sprintf("it waits for cluster %s, which has no syncer connected", holder)
	}
	return out
}

// tokenOf is refreshToken with those who wait; nil when there is none, and nobody waits for
// one.
func (v *View) tokenOf(f *record.Federation, maxAge time.Duration) *RefreshToken {
	t := v.refreshToken(f, maxAge)
	for _, m := range f.Members {
		if !m.Replica() {
			continue
		}
		switch has := v.custody[f.UID].member(m, t); has.State {
		case MemberWaits, MemberRefused:
			t.Waiting = append(t.Waiting, m.ClusterID+"/"+m.ServiceName)
		}
	}
	if t.State == TokenNone && len(t.Waiting) == 0 {
		return nil
	}
	return &t
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// member is what one member has of a token. The custody may be nil.
func (c *custody) member(m record.Member, t RefreshToken) MemberToken {
	out := MemberToken{ClusterID: m.ClusterID, ServiceName: m.ServiceName, State: MemberIdle}
	if m.ClusterID == t.Holder && t.State != TokenNone && t.State != TokenDeleted {
		out.State, out.Reason, out.Message = MemberHolds, t.Reason, t.Message
		return out
	}
	if c == nil || c.wants[m.ClusterID].rec == nil {
		return out
	}
	out.State = MemberWaits
	grant := c.grants[m.ClusterID].rec
	if grant == nil || grant.Nonce != c.wants[m.ClusterID].rec.Nonce {
		return out
	}
	if grant.Access != "" && grant.Expires != nil {
		out.State, out.Expires = MemberGranted, grant.Expires.Time
		return out
	}
	out.State, out.Reason, out.Message = MemberRefused, grant.Reason, grant.Message
	return out
}

// holdKeys are the keys that keepAlong reads.
func (id change) holdKeys(f *record.Federation) []string {
	if id.token.token == "" {
		return nil
	}
	return holdKeys(f)
}

// keepAlong puts the order to keep the token that came with a change into the
// transaction that accepts it. So nobody is left without it who was answered, or died
// before he could be.
func (c *ControlPlane) keepAlong(v store.View, tx *store.Txn, id change, f *record.Federation) error {
	if id.token.token == "" {
		return nil
	}
	return c.putHold(v, tx, f, id.caller.Subject, c.keeping(id.token, id.claim.requestID))
}
