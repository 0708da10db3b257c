package controlplane

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// MaxRefreshToken bounds a refresh token in bytes.
const MaxRefreshToken = 8 << 10

// refreshTokenPath is where a definition holds the token, for violations.
const refreshTokenPath = "environment.secrets." + oscar.RefreshTokenKey

// offeredToken is a refresh token as a caller gave it.
type offeredToken struct {
	token string
	// issuer and client say who gave it, and to whom; empty for what the holder is
	// configured with.
	issuer, client string
}

// offered is what comes in a definition: the issuer of the token is that of the
// caller's own.
func offered(caller identity.Caller, token string) offeredToken {
	return offeredToken{token: token, issuer: caller.Issuer(), client: caller.ClientID()}
}

// checkRefreshToken refuses what no issuer gives: RFC 6749 A.17 has visible ASCII
// characters and spaces.
func checkRefreshToken(token, path string) error {
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
	return &Error{Code: CodeInvalid, Message: "1 violations", Violations: []oscar.Violation{v}}
}

// newHold seals a refresh token to the cluster that is to hold it, and to nobody
// else. before is the hold that it takes the place of; nil for none.
func (c *ControlPlane) newHold(fed *record.Federation, holder, recipient, requestID string, t offeredToken, before *record.Hold) (*record.Hold, error) {
	now := c.cfg.Now()
	h := &record.Hold{
		V: record.Version, Order: record.HoldKeep, Serial: before.After(now), RequestID: requestID, Owner: fed.Owner,
		Issuer: t.issuer, ClientID: t.client, GivenAt: record.At(now), Mark: c.markOf(t.token),
	}
	sealed, err := seal.Seal(seal.Header{
		Purpose: purposeRefreshToken, Cluster: holder, UID: fed.UID, Generation: h.Serial,
	}, []byte(t.token), recipient)
	if err != nil {
		return nil, fmt.Errorf("seal the refresh token: %w", err)
	}
	h.Refresh = sealed
	return h, nil
}

// markOf tells whether a token is the one that was given before, to those who have
// the control plane's key and to nobody else.
func (c *ControlPlane) markOf(token string) string {
	mac := hmac.New(sha256.New, c.markKey)
	mac.Write([]byte(token))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
