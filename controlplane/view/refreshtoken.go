package view

import (
	"fmt"
	"time"

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

// States of a member: it holds the token; it wants nothing; it wants a token; it has got one;
// it was told why it gets none.
const (
	MemberHolds   = "holds"
	MemberIdle    = "idle"
	MemberWaits   = "waits"
	MemberGranted = "granted"
	MemberRefused = "refused"
)

// RefreshToken is the status of a federation's refresh token.
type RefreshToken struct {
	State string
	// Holder is the cluster that holds it or is to hold it.
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
	// Waiting lists the members, as cluster/service, that want an access token and have none.
	// Only Federation fills it in.
	Waiting []string
}

// MemberToken is the token status of one member.
type MemberToken struct {
	ClusterID, ServiceName string
	State                  string
	Reason                 record.Reason
	Message                string
	// Expires is when a granted access token does.
	Expires time.Time
}

// RefreshToken is the status of a federation's refresh token. Its owner is told to give another
// one when it is older than maxAge.
func (v *View) RefreshToken(f *record.Federation, maxAge time.Duration) RefreshToken {
	out := RefreshToken{State: TokenNone}
	if at := f.Coordinator(); at != nil {
		out.Holder = at.ClusterID
	}
	holder, hold := v.Tokens.m[f.UID].Hold()
	if hold.Rec == nil {
		return out
	}
	out.Holder = holder
	report := v.Tokens.m[f.UID].Holdings[holder].Rec
	if report != nil && report.Serial < hold.Rec.Serial {
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
	if hold.Rec.Order != record.HoldKeep {
		if out.State = TokenDeleting; report != nil && report.State == record.HoldEnded {
			out.State, out.Revoked = TokenDeleted, report.Revoked
		}
	} else {
		out.GivenAt = hold.Rec.GivenAt.Time
		if report == nil {
			out.State = TokenStoring
		}
		if maxAge > 0 {
			out.OldAt = latest(out.GivenAt, out.RenewedAt).Add(maxAge)
		}
	}
	if (out.State == TokenDeleting || out.State == TokenStoring || out.State == TokenFailing) && !v.Alive(holder) {
		out.Reason, out.Message = record.ReasonSessionLost, fmt.Sprintf("it waits for cluster %s, which has no syncer connected", holder)
	}
	return out
}

// TokenOf is RefreshToken with the waiting members. It is nil when there is no token and no
// member waits for one.
func (v *View) TokenOf(f *record.Federation, maxAge time.Duration) *RefreshToken {
	t := v.RefreshToken(f, maxAge)
	for _, m := range f.Members {
		if !m.Replica() {
			continue
		}
		switch has := v.Tokens.m[f.UID].Member(m, t); has.State {
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

// Member is the token status of one member. c may be nil.
func (c *TokenState) Member(m record.Member, t RefreshToken) MemberToken {
	out := MemberToken{ClusterID: m.ClusterID, ServiceName: m.ServiceName, State: MemberIdle}
	if m.ClusterID == t.Holder && t.State != TokenNone && t.State != TokenDeleted {
		out.State, out.Reason, out.Message = MemberHolds, t.Reason, t.Message
		return out
	}
	if c == nil || c.Wants[m.ClusterID].Rec == nil {
		return out
	}
	out.State = MemberWaits
	grant := c.Grants[m.ClusterID].Rec
	if grant == nil || grant.Nonce != c.Wants[m.ClusterID].Rec.Nonce {
		return out
	}
	if grant.Access != "" && grant.Expires != nil {
		out.State, out.Expires = MemberGranted, grant.Expires.Time
		return out
	}
	out.State, out.Reason, out.Message = MemberRefused, grant.Reason, grant.Message
	return out
}
