package identity

import "net/http"

// Schemes asks the authenticator of the scheme that a request uses. Bearer is nil
// when no issuer is configured.
type Schemes struct {
	Basic, Bearer Authenticator
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
