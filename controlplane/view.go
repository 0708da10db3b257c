package controlplane

import (
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

// CreateRequest is one POST of a service definition.
type CreateRequest struct {
	Service *oscar.Service
	// Body is what was sent: its hash tells a repeated request from another one.
	Body []byte
	// IdempotencyKey is empty when the caller gave none.
	IdempotencyKey string
	RequestID      string
	// Deployment overrides the definition: transactional, best-effort or empty.
	Deployment string
	// Plan is the digest of the plan that this creation must be; empty demands none.
	Plan string
	// Wait is how long to wait for the outcome; 0 returns as soon as the
	// request is accepted.
	Wait time.Duration
}

// CreateResult is an accepted creation.
type CreateResult struct {
	Federation Federation
	// Replayed says that an earlier request with the same key had this outcome.
	Replayed bool
	// Done says that the outcome is known: phase ready. When it is false the
	// caller asked not to wait.
	Done bool
	// Away lists, for a best-effort deployment, the replicas that are not ready.
	Away []Replica
}

// DeleteOptions are the orders that go with a deletion.
type DeleteOptions struct {
	ClusterID string
	RequestID string
	// Data is delete when the buckets that our creates made shall go.
	Data string
	// Jobs is cancel when running jobs shall be ended.
	Jobs string
	// IfMatch is the revision that the federation must have; 0 demands none.
	IfMatch int64
	Wait    time.Duration
	Repeat  Repeat
}

// DeleteResult says how many replicas still hold a tombstone, and what became of each.
type DeleteResult struct {
	Pending int
	// Replayed says that an earlier request with the same key had this outcome.
	Replayed bool
	Replicas []DeletedReplica
}

// DeletedReplica is one replica that was ordered to be deleted.
type DeletedReplica struct {
	UID         string
	Federation  string
	GroupID     string
	ClusterID   string
	ServiceName string
	Owner       string
	Cause       record.Cause
	// Pending says that its cluster has not acknowledged the deletion; Message says
	// why, as far as it is known.
	Pending bool
	Message string
	// Buckets tell what stays, and what was deleted with it; nothing while it is pending.
	Buckets []record.BucketFate
	// Volume tells the same of its volume; nil without one.
	Volume *record.VolumeFate
	// DeletedAt is zero while it is pending.
	DeletedAt time.Time
}

// Status of one replica: which generation it speaks of, and why.
type Status struct {
	Phase              record.Phase
	ObservedGeneration int64
	Reason             record.Reason
	Message            string
	LastTransitionTime time.Time
	// Inputs is nil unless the replica uses the storage of its origin.
	Inputs *record.Inputs
}

// Replica is one member of a federation with its status. Members of type
// endpoint have no status.
type Replica struct {
	Type        string
	ClusterID   string
	ServiceName string
	Priority    int
	URL         string
	SSLVerify   *bool
	Weight      *int
	UID         string
	Coordinator bool
	Status      *Status
	// Inputs and Outputs are storage_provider:path of the service.
	Inputs, Outputs []string
}

// Federation is a federation with its computed phase and the status of every replica.
type Federation struct {
	UID        string
	Owner      string
	GroupID    string
	Topology   string
	Delegation string
	Deployment string
	Drift      string
	Generation int64
	// Revision of the federation's record: its ETag.
	Revision  int64
	Phase     record.Phase
	Paused    bool
	CreatedAt time.Time
	ChangedAt time.Time
	Members   []Replica
	// Leaving are removed members whose deletion waits for their clusters.
	Leaving []Replica
	// Edges are pairs of indexes into Members: who lists whom.
	Edges [][2]int
	// Failed is set for the kept result of a creation that failed.
	Failed *FailedCreate
	// RefreshToken is nil for those who may not change the federation, and when it has
	// none.
	RefreshToken *RefreshToken
}

// Replicas is a federation as one of its replicas sees it.
type Replicas struct {
	Federation
	// Self and Sees are indexes into Members.
	Self int
	Sees []int
	// StreamRevision is the store revision that the view was taken at, or later.
	StreamRevision int64
}

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
	Removal *ClusterRemoval
	// Joined is nil until a syncer has joined with a token.
	Joined *ClusterJoined
	// Revoked is nil unless the cluster has lost its rights.
	Revoked *record.Revocation
}

// ClusterJoined is who a cluster has joined as.
type ClusterJoined struct {
	// Key is the fingerprint of its syncer's key.
	Key           string
	KubeSystemUID string
	At            time.Time
	// ValidUntil is when its newest certificate ends.
	ValidUntil time.Time
}

// ClusterRemoval is how far a removal has come.
type ClusterRemoval struct {
	Orphan    bool
	Force     bool
	StartedAt time.Time
	// Federations have not left the cluster yet, and Tombstones are not
	// acknowledged by it.
	Federations int
	Tombstones  int
	// Waits says for what; Blocked that it goes on only when somebody does that.
	Waits   string
	Blocked bool
}

// ClusterSpec is what an administrator says of a cluster.
type ClusterSpec struct {
	ClusterID string
	// IfMatch is the revision that a registration which is changed must have; 0
	// demands none.
	IfMatch       int64
	Endpoint      string
	SSLVerify     bool
	Labels        map[string]string
	AllowedGroups []string
}

// Info is what the control plane says of itself.
type Info struct {
	ControlPlane string
	Clusters     int
	Alive        int
	Etcd         Space
}

// Storage is where a cluster keeps its data.
type Storage struct{ Endpoint, Region string }

// Health says whether requests can be served. Message says why not, or what is not
// in order although they can.
type Health struct {
	OK      bool
	Message string
}

// ChangeRequest is one PUT of a service definition: a full replace. Empty secrets
// mean unchanged.
type ChangeRequest struct {
	Service   *oscar.Service
	RequestID string
	// IfMatch is the revision that the federation must have; 0 demands none.
	IfMatch int64
	// Plan is the digest of the plan that this change must be; empty demands none.
	Plan string
	// Wait is how long to wait until the change is applied everywhere; the votes
	// of added members are waited for in any case.
	Wait   time.Duration
	Repeat Repeat
}

// ReplicasRequest changes who is a member. Without IfMatch additions and removals
// merge with those of others.
type ReplicasRequest struct {
	// ClusterID of the replica that is addressed, when its name is on several.
	ClusterID string
	// Add names new members; one that is there, and equal, is left as it is.
	Add []oscar.Member
	// Remove names members by identity; one that is not there is no error.
	Remove []oscar.Member
	// Replace turns members into others, or changes their settings.
	Replace []Replacement
	// RemoveAll removes every member but the coordinator.
	RemoveAll bool
	// List is the path, in the request, of the list that Add or the To of Replace
	// stand in: violations name what was submitted. Empty when it is the whole body.
	List string
	// Data is delete when the buckets that creates of removed members made shall go.
	Data string
	// Jobs is cancel when running jobs of removed members shall be ended.
	Jobs      string
	RequestID string
	IfMatch   int64
	Wait      time.Duration
	Repeat    Repeat
}

// Replacement turns the member with From's identity into To.
type Replacement struct{ From, To oscar.Member }

// ChangeResult is a federation after a change.
type ChangeResult struct {
	Replicas Replicas
	// Away lists the replicas that have not applied the change yet.
	Away []Replica
	// Replayed says that an earlier request with the same key had this outcome.
	Replayed bool
	// Removed are the members that the change removed.
	Removed []DeletedReplica
}
