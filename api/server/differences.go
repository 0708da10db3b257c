package server

import (
	"context"
	"net/http"

	"github.com/oscarfed/oscarfed/api/server/respond"
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
	d, err := s.cp.Differences.Differences(r.Context(), respond.StateOf(r).Caller)
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, d)
}

// resolveDifference answers POST /system/differences: what is decided is committed,
// and carried out like any change.
func (s *Server) resolveDifference(w http.ResponseWriter, r *http.Request) error {
	var in v1.Resolve
	if _, err := readJSON(r, "difference", &in); err != nil {
		return err
	}
	st := respond.StateOf(r)
	d, err := s.cp.Differences.Resolve(r.Context(), st.Caller, recovery.ResolveRequest{
		ClusterID: in.ClusterID, ServiceName: in.ServiceName, Keep: in.Keep, RequestID: st.WriteID,
	})
	if err != nil {
		return err
	}
	return respond.JSON(w, http.StatusOK, d)
}
