package tokens

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// MaxRefreshToken bounds a refresh token in bytes.
const MaxRefreshToken = 8 << 10

// RefreshTokenPath is where a definition holds the token, for violations.
const RefreshTokenPath = "environment.secrets." + oscar.RefreshTokenKey

// Given is a refresh token that a caller gave.
type Given struct {
	Token string
	// Issuer and Client say who issued it, and to which client; empty for the holder's
	// configured ones.
	issuer, client string
}

// GivenBy is the refresh token in a definition. Its issuer is the issuer of the caller's own
// token.
func GivenBy(caller identity.Caller, token string) Given {
	return Given{Token: token, issuer: caller.Issuer(), client: caller.ClientID()}
}

// CheckRefreshToken refuses a token that no issuer could give: RFC 6749 A.17 allows visible
// ASCII characters and spaces.
func CheckRefreshToken(token, path string) error {
	v := oscar.Violation{Path: path}
	switch {
	case token == "":
		v.Rule, v.Message = oscar.RuleRequired, "the refresh token is empty"
	case len(token) > MaxRefreshToken:
		v.Rule, v.Message = oscar.RuleMaxBytes, fmt.Sprintf("a refresh token has at most %d bytes", MaxRefreshToken)
	default:
		for _, b := range []byte(token) {
			if b < ' ' || b > '~' {
				v.Rule, v.Message = oscar.RuleType, "a refresh token has visible ASCII characters only"
				break
			}
		}
	}
	if v.Rule == "" {
		return nil
	}
	return fault.Invalid(v)
}

// NewHold seals a refresh token to the cluster that is to hold it, and to no other. before is
// the hold that it replaces; nil for none.
func (c *Controller) NewHold(fed *record.Federation, holder, recipient, requestID string, t Given, before *record.Hold) (*record.Hold, error) {
	now := c.cfg.Now()
	h := &record.Hold{
		V: record.Version, Order: record.HoldKeep, Serial: before.After(now), RequestID: requestID, Owner: fed.Owner,
		Issuer: t.issuer, ClientID: t.client, GivenAt: record.At(now), Mark: c.markOf(t.Token),
	}
	sealed, err := seal.Seal(seal.Header{
		Purpose: seal.PurposeRefreshToken, Cluster: holder, UID: fed.UID, Generation: h.Serial,
	}, []byte(t.Token), recipient)
	if err != nil {
		return nil, fmt.Errorf("seal the refresh token: %w", err)
	}
	h.Refresh = sealed
	return h, nil
}

// markOf fingerprints a token with the control plane's key, so that only the control plane can
// tell whether a token was given before.
func (c *Controller) markOf(token string) string {
	mac := hmac.New(sha256.New, c.markKey)
	mac.Write([]byte(token))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
