// Package openid has what the control plane, the syncer and the command line share of speaking with
// OpenID providers: which addresses tokens may be sent to, how much of an answer is read, what a
// token claims, and which scopes a login asks for.
package openid

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/oscarfed/oscarfed/internal/outbound"
)

// CheckIssuer refuses an issuer on the way to which tokens could be read or forged.
func CheckIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("issuer %q is not a URL such as https://login.example.org/realms/science", issuer)
	}
	if !outbound.Private(u) {
		return fmt.Errorf("issuer %q must be reached by https", issuer)
	}
	return nil
}

// MaxAnswer bounds what is read of an issuer's answer, in bytes.
const MaxAnswer = 1 << 20

// Bounded cuts answers that are longer than MaxAnswer, which then are no JSON.
type Bounded struct{ Next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b Bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.Next.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, MaxAnswer), resp.Body}
	}
	return resp, err
}

// CloseIdleConnections is what http.Client asks its transport for.
func (b Bounded) CloseIdleConnections() { (&http.Client{Transport: b.Next}).CloseIdleConnections() }

// Claims are those of a JWT (RFC 7519 4.1) that are read before, or without, a proof
// of its signature.
type Claims struct {
	Issuer  string `json:"iss"`
	Subject string `json:"sub"`
	// Party is the client that the token was issued to, and Expires when it expires, in seconds
	// since 1970; empty and 0 when it does not say.
	Party   string  `json:"azp"`
	Expires float64 `json:"exp"`
}

// Unproven reads what a token claims; nothing when it is not a JWT. A caller that believes it
// verifies it by other means.
func Unproven(token string) Claims {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Claims{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Claims{}
	}
	var claims Claims
	if json.Unmarshal(payload, &claims) != nil {
		return Claims{}
	}
	return claims
}
