package tokens

import (
	"context"
	"errors"
	"fmt"

	v1 "github.com/oscarfed/oscarfed/api/v1"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// RefreshTokenRequest gives a federation a refresh token of its owner.
type RefreshTokenRequest struct {
	ClusterID string
	Token     string
	// Issuer and Client say who issued it, and to which client. When they are empty those of
	// the caller's own access token count.
	Issuer, Client string
	RequestID      string
}

// RefreshToken shows the status of the refresh token of a service's federation, to a caller who
// may change it.
func (c *Controller) RefreshToken(ctx context.Context, caller identity.Caller, service, clusterID string) (*v1.RefreshTokenStatus, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	p, err := c.memberForToken(caller, service, clusterID)
	if err != nil {
		return nil, err
	}
	return c.refreshTokenStatus(p), nil
}

// GiveRefreshToken orders the holder of a federation to keep a refresh token instead of the one
// before. Giving the same token again while it is kept changes nothing: its issuer may have
// replaced it since, and going back to it would end the newer ones.
func (c *Controller) GiveRefreshToken(ctx context.Context, caller identity.Caller, service string, req RefreshTokenRequest) (*v1.RefreshTokenStatus, error) {
	if err := CheckRefreshToken(req.Token, ""); err != nil {
		return nil, err
	}
	release, err := c.gate.ReserveSpace(gate.RegistrationBytes)
	if err != nil {
		return nil, err
	}
	defer release()
	token := GivenBy(caller, req.Token)
	if req.Issuer != "" {
		token.issuer, token.client = req.Issuer, req.Client
	} else if req.Client != "" {
		token.client = req.Client
	}
	return c.orderHold(ctx, caller, service, req.ClusterID, c.Keeping(token, request.ID(req.RequestID)))
}

// Keeping orders the holder to keep a token, unless it keeps that one already.
func (c *Controller) Keeping(token Given, requestID string) NextHold {
	return func(fed *record.Federation, holder string, before *record.Hold, report *record.Holding) (*record.Hold, error) {
		lost := report != nil && report.State == record.HoldLost
		if before != nil && before.Order == record.HoldKeep && before.Mark == c.markOf(token.Token) && !lost {
			return nil, nil
		}
		var recipient string
		c.state.Read(func(v *view.View) { recipient = v.Recipient(holder) })
		if recipient == "" {
			return nil, &fault.Error{Code: fault.CodeUnavailable, Message: fmt.Sprintf("no syncer of cluster %s has ever connected, so that nothing can be sealed to it", holder)}
		}
		return c.NewHold(fed, holder, recipient, requestID, token, before)
	}
}

// DropRefreshToken orders the holder to revoke the refresh token of a federation at its
// issuer, and to delete it. Members get no access tokens any more; those that they
// have are good until they expire.
func (c *Controller) DropRefreshToken(ctx context.Context, caller identity.Caller, service, clusterID, req string) (*v1.RefreshTokenStatus, error) {
	return c.orderHold(ctx, caller, service, clusterID, c.revoking(request.ID(req)))
}

// revoking orders the holder to revoke the token, unless that is ordered already. A holder that keeps a token which was
// given after that order gets another one.
func (c *Controller) revoking(requestID string) NextHold {
	return func(_ *record.Federation, _ string, before *record.Hold, report *record.Holding) (*record.Hold, error) {
		if before == nil || before.Order == record.HoldRevoke && !report.KeepsLater() {
			return nil, nil
		}
		next := before.Ended(record.HoldRevoke, c.cfg.Now())
		next.RequestID = requestID
		return next, nil
	}
}

// memberForToken finds the federation that a request about a token names.
func (c *Controller) memberForToken(caller identity.Caller, service, clusterID string) (view.MemberRef, error) {
	p, err := c.state.FindWithResult(caller, service, clusterID)
	switch {
	case err != nil:
		return p, err
	case p.Rec.Phase.Result() || p.Rec.Coordinator() == nil:
		return p, view.NoService(service, p.Rec.Phase)
	case !caller.MayChange(p.Rec.Owner):
		return p, &fault.Error{Code: fault.CodeForbidden, Message: fmt.Sprintf("service %q can be changed by its owner only", service)}
	}
	return p, nil
}

// NextHold makes the next order about a federation's token from the present one; nil leaves the
// present one. report is the holder's about that; nil when there is none.
type NextHold func(fed *record.Federation, holder string, before *record.Hold, report *record.Holding) (*record.Hold, error)

// orderHold writes the order that next makes from the present one.
func (c *Controller) orderHold(ctx context.Context, caller identity.Caller, service, clusterID string, next NextHold) (*v1.RefreshTokenStatus, error) {
	tries := gate.NewRetries()
	for {
		if err := c.gate.Fresh(ctx); err != nil {
			return nil, err
		}
		p, err := c.memberForToken(caller, service, clusterID)
		if err != nil {
			return nil, err
		}
		if word := record.Strange(p.Rec); word != "" {
			return nil, fault.NewerVersion(fmt.Sprintf("federation %q", p.Rec.GroupID), word)
		}
		if p.Rec.Phase != record.PhaseReady && p.Rec.Phase != record.PhaseApplying {
			return nil, &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("federation %q is %s; wait for its outcome", p.Rec.GroupID, p.Rec.Phase)}
		}
		err = c.writeHold(ctx, p, caller.Subject, next)
		if errors.Is(err, gate.ErrStale) {
			if err := tries.Next(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fault.Crossing(err)
		}
		return c.refreshTokenStatus(p), nil
	}
}

func (c *Controller) writeHold(ctx context.Context, p view.MemberRef, by string, next NextHold) error {
	fedKey := record.FederationKey(p.UID)
	res, err := c.store.Update(ctx, store.Update{
		Keys: append(HoldKeys(p.Rec), fedKey),
		Build: func(v store.View, tx *store.Txn) error {
			if kv, ok := v.KV(fedKey); !ok || kv.ModRevision != p.Rev {
				return gate.ErrStale
			}
			return c.PutHold(v, tx, p.Rec, by, next)
		},
	})
	if err != nil {
		return err
	}
	return c.gate.Shows(ctx, res.Revision)
}

// HoldKeys lists the keys that PutHold reads: the order to the holder, and its report.
func HoldKeys(f *record.Federation) []string {
	holder := f.Coordinator().ClusterID
	return []string{record.HoldKey(holder, f.UID), record.HoldingKey(holder, f.UID)}
}

// PutHold puts the order that next makes from the present one into a transaction that has read
// HoldKeys and has found the federation to be as f says.
func (c *Controller) PutHold(v store.View, tx *store.Txn, f *record.Federation, by string, next NextHold) error {
	holder := f.Coordinator().ClusterID
	key := record.HoldKey(holder, f.UID)
	var before *record.Hold
	var report *record.Holding
	if kv, ok := v.KV(key); ok {
		// An order that cannot be read is replaced.
		before, _ = store.Decode[record.Hold](kv)
	}
	if kv, ok := v.KV(record.HoldingKey(holder, f.UID)); ok && before != nil {
		if said, err := store.Decode[record.Holding](kv); err == nil && said.Serial >= before.Serial {
			report = said
		}
	}
	rec, err := next(f, holder, before, report)
	if err != nil || rec == nil {
		return err
	}
	tx.Expect(record.FederationKey(f.UID))
	tx.Expect(key)
	tx.Put(key, rec)
	entry := request.EntryOf(*f, record.ActionGiveToken, record.OutcomeAccepted)
	entry.By, entry.RequestID, entry.ClusterID, entry.Detail = by, rec.RequestID, holder, ""
	if rec.Order != record.HoldKeep {
		entry.Action = record.ActionDeleteToken
	}
	request.Note(tx, c.cfg.Now(), entry)
	return nil
}

func (c *Controller) refreshTokenStatus(p view.MemberRef) *v1.RefreshTokenStatus {
	out := &v1.RefreshTokenStatus{GroupID: p.Rec.GroupID, UID: p.UID, Members: []v1.MemberToken{}}
	c.state.Read(func(v *view.View) {
		token := v.RefreshToken(p.Rec, c.cfg.RefreshTokenMaxAge)
		out.Token = *token.Wire(c.cfg.Now())
		state := v.Tokens.Get(p.UID)
		for _, m := range p.Rec.Members {
			if m.Replica() {
				out.Members = append(out.Members, state.Member(m, token))
			}
		}
	})
	return out
}
