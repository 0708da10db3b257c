package server

import (
	"net/http"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/runs"
)

// config answers GET /system/config, which clients of OSCAR ask before they do
// anything else, and again for the keys of MinIO before they touch a file. A user gets
// what an OSCAR tells him: that of the cluster which he names with ?cluster_id=, else of
// the default one, as far as it can be asked. The administrator gets no keys: his are
// MinIO's root keys.
func (s *Server) config(w http.ResponseWriter, r *http.Request) error {
	keys, err := s.storage(w, r)
	if err != nil {
		return err
	}
	return respond.OSCAR(w, v1.Config{
		Config: v1.ManagerConfig{Name: "oscar", OIDCGroups: append([]string{}, s.cfg.OIDCGroups...)},
		MinIOProvider: v1.MinIOProvider{
			Endpoint: keys.Endpoint, Verify: keys.Verify, AccessKey: keys.AccessKey, SecretKey: keys.SecretKey, Region: keys.Region,
		},
		AllowedImageRepositories: []string{},
	})
}

// storage is the one MinIO that a client is told of.
func (s *Server) storage(w http.ResponseWriter, r *http.Request) (*runs.UserKeys, error) {
	if query := r.URL.Query(); query.Has("cluster_id") {
		return s.cp.Storage.StorageOf(r.Context(), respond.StateOf(r).Caller, query.Get("cluster_id"))
	}
	keys, missing, err := s.cp.Storage.DefaultStorage(r.Context(), respond.StateOf(r).Caller)
	if err != nil {
		return nil, err
	}
	if missing != "" { // never a failure: clients that want no file ask as well
		tellMissing(w.Header(), []string{"minio_provider: " + missing})
	}
	return &keys, nil
}
