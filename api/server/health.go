package server

import (
	"context"
	"net/http"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/runs"
)

// Status is what the control plane says of itself.
type Status interface {
	// Ready is closed once the rest may be asked.
	Ready() <-chan struct{}
	Info(ctx context.Context) gate.Info
	Health(ctx context.Context) gate.Health
}

// Storage is what the routes ask of the storage of clusters.
type Storage interface {
	// DefaultStorage is the default cluster's, with the caller's own keys or why there are none.
	DefaultStorage(ctx context.Context, caller identity.Caller) (runs.UserKeys, string, error)
	// StorageOf is a cluster's, with the caller's own keys.
	StorageOf(ctx context.Context, caller identity.Caller, cluster string) (*runs.UserKeys, error)
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
	switch h := s.cp.Status.Health(r.Context()); {
	case !h.OK:
		writeText(w, http.StatusServiceUnavailable, h.Message)
	case h.Message != "":
		writeText(w, http.StatusOK, "Ok, but "+h.Message)
	default:
		writeText(w, http.StatusOK, "Ok")
	}
}
