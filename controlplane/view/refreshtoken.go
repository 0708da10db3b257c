package view

import (
	"fmt"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"

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

// RefreshToken is the status of a federation's refresh token. Its age is counted by Wire, so that
// two readings of the same records are equal.
type RefreshToken struct {
	v1.RefreshToken
	// OldAt is when it is to be replaced; zero for never.
	OldAt time.Time
}

// Wire is the status at a moment; nil for nil.
func (t *RefreshToken) Wire(now time.Time) *v1.RefreshToken {
	if t == nil {
		return nil
	}
	out := t.RefreshToken
	if since := t.newest(); !since.IsZero() {
		out.AgeS = max(0, int64(now.Sub(since)/time.Second))
	}
	if !t.OldAt.IsZero() && now.After(t.OldAt) {
		out.Old = true
		if out.Message == "" {
			out.Message = "it is old: give another one, or delete it"
		}
	}
	return &out
}

// newest is when the token was given or, when that is later, renewed; zero for neither.
func (t *RefreshToken) newest() time.Time {
	var out time.Time
	for _, at := range []*v1.Time{t.GivenAt, t.RenewedAt} {
		if at != nil && at.After(out) {
			out = at.Time
		}
	}
	return out
}

// RefreshToken is the status of a federation's refresh token. Its owner is told to give another
// one when it is older than maxAge.
func (v *View) RefreshToken(f *record.Federation, maxAge time.Duration) RefreshToken {
	out := RefreshToken{RefreshToken: v1.RefreshToken{State: TokenNone}}
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
		out.Reason, out.Message, report = string(report.Reason), report.Message, nil
	}
	if report != nil {
		out.State, out.Reason, out.Message = string(report.State), string(report.Reason), report.Message
		out.RenewedAt = v1.Moment(TimeOf(report.RenewedAt))
	}
	if hold.Rec.Order != record.HoldKeep {
		if out.State = TokenDeleting; report != nil && report.State == record.HoldEnded {
			out.State, out.Revoked = TokenDeleted, report.Revoked
		}
	} else {
		if at := hold.Rec.GivenAt; !at.IsZero() {
			out.GivenAt = &v1.Time{Time: at.Time}
		}
		if report == nil {
			out.State = TokenStoring
		}
		if maxAge > 0 {
			out.OldAt = out.newest().Add(maxAge)
		}
	}
	if (out.State == TokenDeleting || out.State == TokenStoring || out.State == TokenFailing) && !v.Alive(holder) {
		out.Reason, out.Message = string(record.ReasonSessionLost), fmt.Sprintf("it waits for cluster %s, which has no syncer connected", holder)
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

// Member is the token status of one member. c may be nil.
func (c *TokenState) Member(m record.Member, t RefreshToken) v1.MemberToken {
	out := v1.MemberToken{ClusterID: m.ClusterID, ServiceName: m.ServiceName, State: MemberIdle}
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
		out.State, out.Expires = MemberGranted, v1.Moment(TimeOf(grant.Expires))
		return out
	}
	out.State, out.Reason, out.Message = MemberRefused, string(grant.Reason), grant.Message
	return out
}
