package server

import (
	"context"
	"net/http"

	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// state is what the middleware learns of one request. One goroutine at a time
// uses it: outer middleware reads what inner middleware wrote, after it returned.
type state struct {
	// id is shown to the caller and in the log.
	id string
	// writeID is what the control plane writes into records; see requestID.
	writeID string
	caller  identity.Caller
	// again authenticates the caller anew.
	again func() (identity.Caller, error)
	// oscar says that the path is one of OSCAR's own: errors are text.
	oscar bool
	// noun is what an invalid request calls not valid: request, service, cluster.
	noun string
	// change says that a failed federation is one that stands as it was before.
	change bool
	// location is where an outcome that is not known can be looked up.
	location string
	// watch says that the answer is a stream of events that nothing but its caller ends.
	watch bool
}

type stateKey struct{}

func withState(r *http.Request, st *state) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), stateKey{}, st))
}

// stateOf never answers nil, so that a handler that is served without the
// middleware has no caller and therefore no rights.
func stateOf(r *http.Request) *state {
	if st, ok := r.Context().Value(stateKey{}).(*state); ok {
		return st
	}
	return &state{noun: "request"}
}

// asOSCAR marks the routes that answer as an OSCAR Manager does.
func asOSCAR(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stateOf(r).oscar = true
		next.ServeHTTP(w, r)
	})
}
