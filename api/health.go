package api

import (
	"context"
	"net/http"

	"github.com/oscarfed/oscarfed/controlplane"
)

// status is what the control plane says of itself.
type status interface {
	Info(ctx context.Context) controlplane.Info
	Health(ctx context.Context) controlplane.Health
}

// health answers GET /health: whether requests can be served here now.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.drained:
		writeText(w, http.StatusServiceUnavailable, "the control plane is stopping")
		return
	default:
	}
	if h := s.cp.Health(r.Context()); !h.OK {
		writeText(w, http.StatusServiceUnavailable, h.Message)
		return
	}
	writeText(w, http.StatusOK, "Ok")
}
