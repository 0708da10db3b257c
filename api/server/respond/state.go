package respond

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// State is what the middleware learns of one request. One goroutine at a time
// uses it: outer middleware reads what inner middleware wrote, after it returned.
type State struct {
	// ID is shown to the caller and in the log.
	ID string
	// WriteID is what the control plane writes into records; see package middleware.
	WriteID string
	Caller  identity.Caller
	// Again authenticates the caller anew.
	Again func() (identity.Caller, error)
	// OSCAR says that the path is one of OSCAR's own: errors are text.
	OSCAR bool
	// Noun is what an invalid request calls not valid: request, service, cluster.
	Noun string
	// Change says that a failed federation is one that stands as it was before.
	Change bool
	// Location is where an outcome that is not known can be looked up.
	Location string
	// Watch says that the answer is a stream of events that nothing but its caller ends.
	Watch bool
	// Passed says that the status is not ours: a function, or an OSCAR, has answered with it.
	Passed bool
}

type stateKey struct{}

// With gives a request its state.
func With(r *http.Request, st *State) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), stateKey{}, st))
}

// StateOf never answers nil, so that a handler that is served without the
// middleware has no caller and therefore no rights.
func StateOf(r *http.Request) *State {
	if st, ok := r.Context().Value(stateKey{}).(*State); ok {
		return st
	}
	return &State{Noun: "request"}
}

// RouteOf is the pattern that matched; it is bounded, a path is not.
func RouteOf(r *http.Request) string {
	if ctx := chi.RouteContext(r.Context()); ctx != nil {
		if p := ctx.RoutePattern(); p != "" {
			return p
		}
	}
	return "unmatched"
}

// StillIn says whether the caller would be let in now. A caller whose state cannot be read is let
// in.
func (st *State) StillIn() bool {
	now, err := st.Again()
	return err == nil && now.Account() == st.Caller.Account() || err != nil && !errors.Is(err, identity.ErrUnauthenticated)
}
