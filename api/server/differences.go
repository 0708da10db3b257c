package server

import (
	"context"
	"net/http"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/recovery"
)

// Differences are the use cases of a store that was restored.
type Differences interface {
	Differences(ctx context.Context, caller identity.Caller) (*recovery.Differences, error)
	Resolve(ctx context.Context, caller identity.Caller, req recovery.ResolveRequest) (*recovery.Difference, error)
}

// listDifferences answers GET /system/differences.
func (s *Server) listDifferences(w http.ResponseWriter, r *http.Request) error {
	d, err := s.cp.Differences.Differences(r.Context(), stateOf(r).caller)
	if err != nil {
		return err
	}
	out := v1.Differences{Epoch: d.Epoch, RestoredAt: timeOf(d.RestoredAt), Clusters: []v1.Comparison{}, Differences: []v1.Difference{}}
	for _, c := range d.Clusters {
		out.Clusters = append(out.Clusters, v1.Comparison{ClusterID: c.ClusterID, Compared: c.Compared, Alive: c.Alive, LastSeen: timeOf(c.LastSeen)})
	}
	for i := range d.Items {
		out.Differences = append(out.Differences, differenceOf(&d.Items[i]))
	}
	return writeJSON(w, http.StatusOK, out)
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
	return writeJSON(w, http.StatusOK, differenceOf(d))
}

func differenceOf(d *recovery.Difference) v1.Difference {
	return v1.Difference{
		Kind: d.Kind, ClusterID: d.ClusterID, ServiceName: d.ServiceName, UID: d.UID,
		Federation: d.Federation, GroupID: d.GroupID, Owner: d.Owner,
		StoreGeneration: d.StoreGeneration, ClusterGeneration: d.ClusterGeneration,
		Message: d.Message, KeepStore: d.KeepStore, KeepCluster: d.KeepCluster, Resolving: d.Resolving,
	}
}

func timeOf(t *time.Time) *v1.Time {
	if t == nil {
		return nil
	}
	return &v1.Time{Time: *t}
}
