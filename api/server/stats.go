package server

import (
	"context"
	"net/http"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// Stats is the use case that counts jobs.
type Stats interface {
	// Stats counts those of one federation, or of all that are the caller's.
	Stats(ctx context.Context, caller identity.Caller, federation string) (*v1.Stats, error)
}

// getStats answers GET /system/stats.
func (s *Server) getStats(w http.ResponseWriter, r *http.Request) error {
	out, err := s.cp.Stats.Stats(r.Context(), respond.StateOf(r).Caller, r.URL.Query().Get("federation"))
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, out)
}
