package server

import (
	"net/http"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/federations"
)

// listDeleted answers GET /system/deleted: the caller's replicas that were deleted
// in the last 90 days, those that wait for their clusters first.
func (s *Server) listDeleted(w http.ResponseWriter, r *http.Request) error {
	list, err := s.cp.Federations.Deleted(r.Context(), stateOf(r).caller, r.URL.Query().Get("group_id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, deletedOf(list))
}

func deletedOf(list []federations.DeletedReplica) []v1.DeletedReplica {
	out := make([]v1.DeletedReplica, len(list))
	for i, d := range list {
		out[i] = v1.DeletedReplica{
			UID: d.UID, Federation: d.Federation, GroupID: d.GroupID, ClusterID: d.ClusterID, ServiceName: d.ServiceName,
			Owner: d.Owner, Cause: string(d.Cause), Pending: d.Pending, Message: d.Message, Buckets: []v1.BucketFate{},
		}
		for _, b := range d.Buckets {
			out[i].Buckets = append(out[i].Buckets, v1.BucketFate(b))
		}
		if d.Volume != nil {
			out[i].Volume = new(v1.VolumeFate(*d.Volume))
		}
		if !d.DeletedAt.IsZero() {
			out[i].DeletedAt = &v1.Time{Time: d.DeletedAt}
		}
	}
	return out
}
