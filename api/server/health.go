package server

import (
	"context"
	"net/http"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// status is what the control plane says of itself.
type status interface {
	// Ready is closed once the rest may be asked.
	Ready() <-chan struct{}
	Info(ctx context.Context) controlplane.Info
	// DefaultStorage is the default cluster's, with the caller's own keys or why there are none.
	DefaultStorage(ctx context.Context, caller identity.Caller) (controlplane.UserKeys, string, error)
	// StorageOf is a cluster's, with the caller's own keys.
	StorageOf(ctx context.Context, caller identity.Caller, cluster string) (*controlplane.UserKeys, error)
	Health(ctx context.Context) controlplane.Health
	Room(ctx context.Context, caller identity.Caller) (controlplane.Room, error)
}

// health answers GET /health: whether requests can be served here now. What is wrong
// and does not keep this instance from serving is told after the word, with 200: a
// load balancer that took the instance away would make it worse.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.drained:
		writeText(w, http.StatusServiceUnavailable, "the control plane is stopping")
		return
	default:
	}
	switch h := s.cp.Health(r.Context()); {
	case !h.OK:
		writeText(w, http.StatusServiceUnavailable, h.Message)
	case h.Message != "":
		writeText(w, http.StatusOK, "Ok, but "+h.Message)
	default:
		writeText(w, http.StatusOK, "Ok")
	}
}
