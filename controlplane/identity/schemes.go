package identity

import "net/http"

// Schemes asks the authenticator of the scheme that a request uses. Bearer is nil
// when no issuer is configured.
type Schemes struct {
	Basic, Bearer Authenticator
}

// Signed names the user whose token a request has, when that is proven without asking anybody.
func (s Schemes) Signed(r *http.Request) string {
	if bearer, ok := s.Bearer.(interface{ Signed(r *http.Request) string }); ok {
		return bearer.Signed(r)
	}
	return ""
}

// Authenticate implements Authenticator.
func (s Schemes) Authenticate(r *http.Request) (Caller, error) {
	if _, ok := bearer(r); ok {
		if s.Bearer == nil {
			return Caller{}, ErrUnauthenticated
		}
		return s.Bearer.Authenticate(r)
	}
	return s.Basic.Authenticate(r)
}
