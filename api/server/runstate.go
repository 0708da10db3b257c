package server

import (
	"net/http"

	"github.com/oscarfed/oscarfed/api/server/respond"
	"github.com/oscarfed/oscarfed/controlplane/federations"
)

// setRunState answers POST /system/services/{service}/start and stop: how the service stands then.
func (s *Server) setRunState(stop bool) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		st, p := respond.StateOf(r), paramsOf(r)
		in := federations.RunStateRequest{
			Service: pathParam(r, "service"), ClusterID: p.query.Get("cluster_id"), RequestID: st.WriteID, Stop: stop, Wait: p.wait(min(updateWait, s.cfg.DefaultWait)),
		}
		if err := p.err(); err != nil {
			return err
		}
		st.Location = respond.ReplicasPath(in.Service)
		if err := s.cp.Federations.SetRunState(r.Context(), st.Caller, in); err != nil {
			return err
		}
		return s.getDeployment(w, r)
	}
}

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
