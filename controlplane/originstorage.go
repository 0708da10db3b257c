package controlplane

import (
	"net/url"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store/record"
)

// The workers of a user's federation use the MinIO of its origin, the coordinator's
// cluster, where their syncers can (record.OriginStorage). Those of the administrator's do
// not: the origin's OSCAR would answer him MinIO's root keys, which never leave a
// cluster.

// minioOf is the MinIO of a cluster as its syncer reports it. Without an endpoint nothing is
// known of it, or nothing that anybody could reach.
func (v *View) minioOf(cluster string) record.OriginStorage {
	out := record.OriginStorage{ClusterID: cluster}
	n := v.nodes[cluster]
	if n == nil || n.self.rec == nil || !plausibleMinIO(n.self.rec) {
		return out
	}
	o := n.self.rec
	out.MinioEndpoint, out.MinioRegion = o.MinioEndpoint, o.MinioRegion
	// An older syncer does not say, and nobody's certificate is trusted for that.
	out.MinioVerify = o.MinioVerify == nil || *o.MinioVerify
	return out
}

// plausibleMinIO says whether a syncer reports an address that an OSCAR can be sent.
func plausibleMinIO(o *record.ObservedCluster) bool {
	if len(o.MinioEndpoint) > oscar.MaxURLLength || len(o.MinioRegion) > maxRegion {
		return false
	}
	u, err := url.Parse(o.MinioEndpoint)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

// maxRegion in bytes; those of S3 have less than 20.
const maxRegion = 64

// originStorage is the storage that the workers of an origin are to use; nil when it is not
// known.
func (v *View) originStorage(o topology.Origin) *record.OriginStorage {
	out := v.minioOf(o.ClusterID)
	if out.MinioEndpoint == "" || o.Endpoint == "" {
		return nil
	}
	out.Endpoint, out.SSLVerify = o.Endpoint, o.SSLVerify
	return &out
}

// originOf is the storage of the origin that node i uses; nil for its own cluster's.
// Where both MinIOs are called alike it keeps its own: OSCAR cannot tell them apart, and
// within Kubernetes one name means another server on each cluster.
func (r *renderer) originOf(i int) *record.OriginStorage {
	node := r.graph.Nodes[i]
	if r.storage == nil || node.Coordinator || r.minio[node.Member.ClusterID] == r.storage.MinioEndpoint {
		return nil
	}
	return r.storage
}

// storageUsed is the MinIO that a replica's minio.default is, as far as it is known: of its
// own cluster, or of the origin when its syncer says that it uses that.
func (v *View) storageUsed(p place) record.OriginStorage {
	m := p.at()
	at := m.ClusterID
	if n := v.nodes[at]; n != nil && !m.Coordinator {
		if o := n.observed[m.ServiceName].rec; o != nil && o.UID == m.UID && o.Inputs != nil {
			at = p.rec.Coordinator().ClusterID
		}
	}
	return v.minioOf(at)
}
