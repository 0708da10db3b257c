package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/oscarfed/oscarfed/api/server/middleware"
	"github.com/oscarfed/oscarfed/api/server/respond"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// lifeTokenWarning goes with what is done for a token that the next version refuses.
const lifeTokenWarning = `299 - "this is the token that OSCAR keeps; use the one that GET /system/services/<service> of the control plane shows"`

// authenticate stops every request without accepted credentials. It is the only place where the
// API establishes the caller. While an address is limited because its credentials fail too often,
// only credentials that were accepted lately are verified, and new tokens of users that were.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return s.authenticateBy(next, func(r *http.Request) (identity.Caller, error) { return s.auth.Authenticate(r) })
}

// authenticateService is authenticate for the routes that the service in the path may
// use by its own token. A token that is not its own is refused alike whether there is
// such a service or not.
func (s *Server) authenticateService(next http.Handler) http.Handler {
	return s.authenticateBy(next, func(r *http.Request) (identity.Caller, error) {
		if token, ok := identity.ServiceToken(r); ok {
			return s.cp.Tokens.ServiceCaller(r.Context(), pathParam(r, "service"), token)
		}
		return s.auth.Authenticate(r)
	})
}

func (s *Server) authenticateBy(next http.Handler, who func(*http.Request) (identity.Caller, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.limits.FailedTooOften(r) && !s.accepted.Has(r, s.signed(r)) {
			s.fail(w, r, middleware.Exhausted("too many failed authentications from this address"))
			return
		}
		caller, err := who(r)
		switch {
		case errors.Is(err, identity.ErrUnauthenticated):
			s.accepted.Note(r, s.signed(r), false)
			s.limits.Failed(w, r)
			s.fail(w, r, respond.Errorf(fault.CodeUnauthenticated, "credentials are missing or not accepted"))
			return
		case err != nil:
			s.fail(w, r, &fault.Error{
				Code: fault.CodeUnavailable, Message: "credentials cannot be checked now", Cause: err,
			})
			return
		}
		s.accepted.Note(r, caller.User(), true)
		if caller.LifeToken {
			w.Header().Set(warningHeader, lifeTokenWarning)
			s.log.WarnContext(r.Context(), "a service's token for its OSCAR was shown to the control plane; the next version refuses it", "request_id", respond.StateOf(r).ID, "route", respond.RouteOf(r), "service_uid", caller.Service)
		}
		st := respond.StateOf(r)
		st.Caller, st.Again = caller, func() (identity.Caller, error) { return who(r) }
		next.ServeHTTP(w, r)
	})
}

// signed names the user whose token a request has, when that is proven without asking his issuer.
func (s *Server) signed(r *http.Request) string {
	if auth, ok := s.auth.(interface{ Signed(r *http.Request) string }); ok {
		return auth.Signed(r)
	}
	return ""
}

// errTokenOver ends a streamed answer when the caller's token has expired.
var errTokenOver = errors.New("the token of the caller has expired")

// whileValid ends a request with the token that it came with. It is for answers that are streamed;
// other requests are decided once, for the caller at that moment.
func whileValid(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := untilExpiry(r.Context(), respond.StateOf(r).Caller)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// untilExpiry ends with the token of a caller, if he has one.
func untilExpiry(ctx context.Context, caller identity.Caller) (context.Context, context.CancelFunc) {
	_, expiry := caller.Token()
	if expiry.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, expiry, errTokenOver)
}
