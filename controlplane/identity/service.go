package identity

import (
	"net/http"
	"strings"
)

// serviceTokenLength is that of a service's own token, in hexadecimal digits.
const serviceTokenLength = 64

// ServiceToken is the bearer token of a request, when it has the form of a service's
// own one. No token of an issuer has it.
func ServiceToken(r *http.Request) (token string, ok bool) {
	token, ok = bearer(r)
	if !ok || len(token) != serviceTokenLength || strings.Trim(token, "0123456789abcdef") != "" {
		return "", false
	}
	return token, true
}

// OfService is the caller of a request with the token of one life of a service. It may send
// events to that service and read its replicas, and nothing else.
func OfService(uid string) Caller { return Caller{Service: uid} }

// Account is the account that requests are counted for.
func (c Caller) Account() string {
	if c.Service != "" {
		return "service " + c.Service
	}
	return c.Subject
}
