package api

import (
	"net/http"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// config answers GET /system/config, which clients of OSCAR ask before they do
// anything else. It has nobody's credentials: the control plane has none to give. With
// ?cluster_id= a user is answered what that cluster's OSCAR tells him.
func (s *Server) config(w http.ResponseWriter, r *http.Request) error {
	out := v1.Config{
		Config:                   v1.ManagerConfig{Name: "oscar", OIDCGroups: []string{}},
		AllowedImageRepositories: []string{},
	}
	if query := r.URL.Query(); query.Has("cluster_id") {
		keys, err := s.cp.StorageOf(r.Context(), stateOf(r).caller, query.Get("cluster_id"))
		if err != nil {
			return err
		}
		w.Header().Set("Cache-Control", "no-store")
		out.MinIOProvider = v1.MinIOProvider{
			Endpoint: keys.Endpoint, Verify: keys.Verify, AccessKey: keys.AccessKey, SecretKey: keys.SecretKey, Region: keys.Region,
		}
		return writeOSCAR(w, out)
	}
	storage := s.cp.Storage(r.Context())
	out.MinIOProvider = v1.MinIOProvider{Endpoint: storage.Endpoint, Verify: true, Region: storage.Region}
	return writeOSCAR(w, out)
}
