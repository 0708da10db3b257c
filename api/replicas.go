package api

import (
	"net/http"
)

// getReplicas answers GET /system/replicas/{service}: the federation as that
// replica sees it. It never answers 304: a status may change while the record,
// and so the ETag, does not.
func (s *Server) getReplicas(w http.ResponseWriter, r *http.Request) error {
	view, err := s.cp.Replicas(r.Context(), stateOf(r).caller, pathParam(r, "service"), r.URL.Query().Get("cluster_id"))
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(view.Revision))
	return writeJSON(w, http.StatusOK, replicasOf(view))
}
