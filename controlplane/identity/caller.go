package identity

import (
	"log/slog"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// Admin is the owner that OSCAR gives to what its administrator makes.
const Admin = oscar.OwnerAdmin

// Caller is the sender of a request, after its credentials were accepted.
type Caller struct {
	// Subject is the owner of what the caller makes: cluster_admin for the
	// administrator, the token's sub for a user.
	Subject string
	// Administrator may read, change and delete everything.
	Administrator bool
	// Service is the uid of the replica whose own token the request has. Such a caller has no
	// subject, and may only send events to that service.
	Service string
	// LifeToken says that the service has shown the token that its OSCAR keeps, as webhooks
	// do that were set by hand. The next version takes only that of the control plane.
	LifeToken bool
	// user is nil for the administrator, and for a service.
	user *user
}

// user is what a bearer token tells of its bearer.
type user struct {
	issuer string
	// name is what the issuer calls the user; empty when it does not.
	name   string
	groups []string
	token  string
	expiry time.Time
	// client is whom the token was issued to; empty when it does not say.
	client string
}

// Token is the access token that the caller came with, and when it expires; empty
// for the administrator. It is never logged and never stored in clear.
func (c Caller) Token() (token string, expiry time.Time) {
	if c.user == nil {
		return "", time.Time{}
	}
	return c.user.token, c.user.expiry
}

// Issuer of the caller's token; empty for the administrator.
func (c Caller) Issuer() string {
	if c.user == nil {
		return ""
	}
	return c.user.issuer
}

// User tells users of all issuers apart; empty for the administrator, and for a service.
func (c Caller) User() string {
	if c.user == nil {
		return ""
	}
	return userOf(c.user.issuer, c.Subject)
}

func userOf(issuer, subject string) string { return issuer + " " + subject }

// ClientID is whom the caller's token was issued to: its azp (OpenID Connect Core 2), or
// its client_id (RFC 9068). Empty for the administrator, and when it does not say.
func (c Caller) ClientID() string {
	if c.user == nil {
		return ""
	}
	return c.user.client
}

// Name is what the issuer calls the user; empty when it does not, and for the administrator. It is
// for people to read: another user may have the same one.
func (c Caller) Name() string {
	if c.user == nil {
		return ""
	}
	return c.user.name
}

// Groups are those that the issuer tells of; none for the administrator.
func (c Caller) Groups() []string {
	if c.user == nil {
		return nil
	}
	return slices.Clone(c.user.groups)
}

// InGroup says whether the caller is in one of some groups. The administrator is in
// every group.
func (c Caller) InGroup(groups ...string) bool {
	if c.Administrator {
		return true
	}
	return c.user != nil && slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(c.user.groups, g) })
}

// LogValue implements slog.LogValuer: the subject, and no credentials.
func (c Caller) LogValue() slog.Value { return slog.StringValue(c.Account()) }

// String implements fmt.Stringer, for the same reason.
func (c Caller) String() string { return c.Account() }

// GoString implements fmt.GoStringer, for the same reason.
func (c Caller) GoString() string { return c.Account() }

// MayChange says whether the caller may change or delete what owner owns.
func (c Caller) MayChange(owner string) bool {
	return c.Administrator || c.Subject != "" && c.Subject == owner
}

// MayRead follows OSCAR's visibility: public is for everybody, restricted for
// the owner and the allowed users, everything else for the owner.
func (c Caller) MayRead(owner, visibility string, allowed []string) bool {
	switch {
	case c.Service != "":
		return false
	case c.MayChange(owner), visibility == oscar.VisibilityPublic:
		return true
	case visibility == oscar.VisibilityRestricted:
		return slices.Contains(allowed, c.Subject)
	}
	return false
}
