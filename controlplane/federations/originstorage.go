package federations

import (
	"github.com/oscarfed/oscarfed/store/record"
)

// originOf is the storage of the origin that node i uses; nil for its own cluster's.
// Where both MinIOs are called alike it keeps its own: OSCAR cannot tell them apart, and
// within Kubernetes one name means another server on each cluster.
func (r *Renderer) originOf(i int) *record.OriginStorage {
	node := r.graph.Nodes[i]
	if r.storage == nil || node.Coordinator || r.minio[node.Member.ClusterID] == r.storage.MinioEndpoint {
		return nil
	}
	return r.storage
}
