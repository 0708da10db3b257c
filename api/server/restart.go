package server

import (
	"net/http"

	"github.com/oscarfed/oscarfed/api/server/respond"
)

const restartRoute = "/system/services/{service}/restart"

// restartService answers POST /system/services/{service}/restart: how the service stands after
// its members were told to restart.
func (s *Server) restartService(w http.ResponseWriter, r *http.Request) error {
	missing, err := s.cp.Invocations.Restart(r.Context(), respond.StateOf(r).Caller, logTarget(r))
	if err != nil {
		return err
	}
	tellMissing(w.Header(), missing)
	return s.getDeployment(w, r)
}
