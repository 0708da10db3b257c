package api

import (
	"errors"
	"net/http"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// challenge is OSCAR's: clients show it to their users.
const challenge = `Basic realm="Authorization Required"`

// authenticate stops every request without accepted credentials. It is the only
// place where the API asks who is calling. An address that fails too often is
// not even asked for its credentials until it pauses.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return s.authenticateBy(next, func(r *http.Request) (identity.Caller, error) { return s.auth.Authenticate(r) })
}

// authenticateService is authenticate for the routes that the service in the path may
// use by its own token. A token that is not its own is refused alike whether there is
// such a service or not.
func (s *Server) authenticateService(next http.Handler) http.Handler {
	return s.authenticateBy(next, func(r *http.Request) (identity.Caller, error) {
		if token, ok := identity.ServiceToken(r); ok {
			return s.cp.ServiceCaller(r.Context(), pathParam(r, "service"), token)
		}
		return s.auth.Authenticate(r)
	})
}

func (s *Server) authenticateBy(next http.Handler, who func(*http.Request) (identity.Caller, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.limits.failedTooOften(r) {
			s.fail(w, r, exhausted("too many failed authentications from this address"))
			return
		}
		caller, err := who(r)
		switch {
		case errors.Is(err, identity.ErrUnauthenticated):
			s.limits.failed(w, r)
			s.fail(w, r, errorf(controlplane.CodeUnauthenticated, "credentials are missing or not accepted"))
			return
		case err != nil:
			s.fail(w, r, &controlplane.Error{
				Code: controlplane.CodeUnavailable, Message: "credentials cannot be checked now", Cause: err,
			})
			return
		}
		stateOf(r).caller = caller
		next.ServeHTTP(w, r)
	})
}
