package server

import (
	"context"
	"net/http"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// Usage is the use case that counts what accounts have in etcd.
type Usage interface {
	Usage(ctx context.Context, caller identity.Caller) (*v1.Usage, error)
}

// getUsage answers GET /system/usage.
func (s *Server) getUsage(w http.ResponseWriter, r *http.Request) error {
	out, err := s.cp.Usage.Usage(r.Context(), respond.StateOf(r).Caller)
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, out)
}
