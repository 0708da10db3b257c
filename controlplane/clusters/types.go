package clusters

import (
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// Cluster is a registered cluster with what its syncer says of it. A user is shown a part
// of it, without its UID.
type Cluster struct {
	// Revision of the registration: its ETag.
	Revision      int64
	ClusterID     string
	UID           string
	Endpoint      string
	SSLVerify     bool
	Labels        map[string]string
	State         record.ClusterState
	AllowedGroups []string
	RegisteredAt  time.Time
	Alive         bool
	// Stream says that its syncer has a stream to this instance.
	Stream       bool
	OscarVersion string
	LastSeen     *time.Time
	QueueS       int64
	// Reason is set when the syncer cannot work with its OSCAR; Message says more.
	Reason  record.Reason
	Message string
	Orphans []record.Orphan
	// Unlisted are services whose jobs are not known since the store was restored.
	Unlisted []record.Unlisted
	// Removal is nil unless the cluster is being removed.
	Removal *Removal
	// Joined is nil until a syncer has joined with a token.
	Joined *Joined
	// Revoked is nil unless the cluster has lost its rights.
	Revoked *record.Revocation
}

// Joined is the identity that a cluster has joined with.
type Joined struct {
	// Key is the fingerprint of its syncer's key.
	Key           string
	KubeSystemUID string
	At            time.Time
	// ValidUntil is when its newest certificate ends.
	ValidUntil time.Time
}

// Removal is how far a removal has come.
type Removal struct {
	Orphan    bool
	Force     bool
	StartedAt time.Time
	// Federations have not left the cluster yet, and Tombstones are not
	// acknowledged by it.
	Federations int
	Tombstones  int
	// Waits says what the removal waits for; Blocked that a person must do it.
	Waits   string
	Blocked bool
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
