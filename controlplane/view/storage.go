package view

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

// MinioOf is the MinIO of a cluster as its syncer reports it. Without an endpoint nothing is
// known of it, or nothing that anybody could reach.
func (v *View) MinioOf(cluster string) record.OriginStorage {
	out := record.OriginStorage{ClusterID: cluster}
	n := v.Nodes[cluster]
	if n == nil || n.Self.Rec == nil || !plausibleMinIO(n.Self.Rec) {
		return out
	}
	o := n.Self.Rec
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

// OriginStorage is the storage that the workers of an origin are to use; nil when it is not
// known.
func (v *View) OriginStorage(o topology.Origin) *record.OriginStorage {
	out := v.MinioOf(o.ClusterID)
	if out.MinioEndpoint == "" || o.Endpoint == "" {
		return nil
	}
	out.Endpoint, out.SSLVerify = o.Endpoint, o.SSLVerify
	return &out
}

// StorageUsed is the MinIO that a replica's minio.default is, as far as it is known: of its
// own cluster, or of the origin when its syncer says that it uses that.
func (v *View) StorageUsed(p MemberRef) record.OriginStorage {
	m := p.At()
	at := m.ClusterID
	if n := v.Nodes[at]; n != nil && !m.Coordinator {
		if o := n.Observed[m.ServiceName].Rec; o != nil && o.UID == m.UID && o.Inputs != nil {
			at = p.Rec.Coordinator().ClusterID
		}
	}
	return v.MinioOf(at)
}
