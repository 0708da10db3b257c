package server

import (
	"net/http"
)

// listDeleted answers GET /system/deleted: the caller's replicas that were deleted
// in the last 90 days, those that wait for their clusters first.
func (s *Server) listDeleted(w http.ResponseWriter, r *http.Request) error {
	list, err := s.cp.Federations.Deleted(r.Context(), stateOf(r).caller, r.URL.Query().Get("group_id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, list)
}
