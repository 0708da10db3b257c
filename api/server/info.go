package server

import (
	"net/http"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/version"
)

// info answers GET /system/info. There is no one Kubernetes behind a federation,
// so its version is empty; clients only show it.
func (s *Server) info(w http.ResponseWriter, r *http.Request) error {
	build, cp := version.Get(), s.cp.Status.Info(r.Context())
	out := v1.Info{
		Version:         version.OSCAR,
		GitCommit:       build.Commit,
		Architecture:    build.Arch,
		OscarfedVersion: build.Version,
		ControlPlane:    cp.ControlPlane,
		Clusters:        cp.Clusters,
		AliveClusters:   cp.Alive,
	}
	if stateOf(r).caller.Administrator {
		out.Etcd = &v1.EtcdSpace{
			Space: cp.Etcd.Level, SizeBytes: cp.Etcd.Size, InUseBytes: cp.Etcd.InUse, QuotaBytes: cp.Etcd.Quota, Advice: cp.Etcd.Advice,
		}
	}
	return writeOSCAR(w, out)
}
