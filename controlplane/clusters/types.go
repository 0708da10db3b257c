package clusters

import (
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Cluster is a registered cluster with what its syncer says of it. A user is shown a part
// of it, without its UID.
type Cluster struct {
	v1.Cluster
	// Revision of the registration: its ETag.
	Revision int64
}

// Spec is what an administrator says of a cluster.
type Spec struct {
	ClusterID string
	// IfMatch is the revision that a registration which is changed must have; 0
	// demands none.
	IfMatch       int64
	Endpoint      string
	SSLVerify     bool
	Labels        map[string]string
	AllowedGroups []string
}
