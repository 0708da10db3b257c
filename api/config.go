package api

import (
	"net/http"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// config answers GET /system/config, which clients of OSCAR ask before they do
// anything else. It has nobody's credentials: the control plane has none to give.
func (s *Server) config(w http.ResponseWriter, r *http.Request) error {
	storage := s.cp.Storage(r.Context())
	return writeOSCAR(w, v1.Config{
		Config: v1.ManagerConfig{Name: "oscar", OIDCGroups: []string{}},
		MinIOProvider: v1.MinIOProvider{
			Endpoint: storage.Endpoint, Verify: true, Region: storage.Region,
		},
		AllowedImageRepositories: []string{},
	})
}
