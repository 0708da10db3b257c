package server

import (
	"context"
	"net/http"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/recovery"
)

// Differences are the use cases of a store that was restored.
type Differences interface {
	Differences(ctx context.Context, caller identity.Caller) (*v1.Differences, error)
	Resolve(ctx context.Context, caller identity.Caller, req recovery.ResolveRequest) (*v1.Difference, error)
}

// listDifferences answers GET /system/differences.
func (s *Server) listDifferences(w http.ResponseWriter, r *http.Request) error {
	d, err := s.cp.Differences.Differences(r.Context(), stateOf(r).caller)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, d)
}

// resolveDifference answers POST /system/differences: what is decided is committed,
// and carried out like any change.
func (s *Server) resolveDifference(w http.ResponseWriter, r *http.Request) error {
	var in v1.Resolve
	if _, err := readJSON(r, "difference", &in); err != nil {
		return err
	}
	st := stateOf(r)
	d, err := s.cp.Differences.Resolve(r.Context(), st.caller, recovery.ResolveRequest{
		ClusterID: in.ClusterID, ServiceName: in.ServiceName, Keep: in.Keep, RequestID: st.writeID,
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, d)
}
