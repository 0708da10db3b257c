package v1

// Address names one service on one cluster.
type Address struct {
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
}

// Status is the state of one replica and the generation that it speaks of.
type Status struct {
	// Phase is prepared, refused, ready, failed, drifted, held, wedged, deleted,
	// pending, applying, deleting or unreachable.
	Phase              string `json:"phase"`
	ObservedGeneration int64  `json:"observed_generation"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	LastTransitionTime Time   `json:"last_transition_time"`
	// Hint is what a person can do about it; empty when it passes by itself.
	Hint string `json:"hint,omitempty"`
	// Inputs is nil unless the replica reads and writes minio.default at the origin, the
	// coordinator's cluster.
	Inputs *Inputs `json:"inputs,omitempty"`
	// RunState is started or stopped once one of them was ordered, as the exposed service was last seen.
	RunState string `json:"run_state,omitempty"`
}

// Inputs says whether a replica can read and write the origin's MinIO, and since when.
// One that cannot gets no jobs.
type Inputs struct {
	Readable bool   `json:"readable"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	At       Time   `json:"at"`
}

// Replica is one member of a federation. A member of type endpoint has a url,
// is not deployed by us and has no status.
type Replica struct {
	Type        string `json:"type"`
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
	Priority    int    `json:"priority"`
	URL         string `json:"url,omitempty"`
	SSLVerify   *bool  `json:"ssl_verify,omitempty"`
	Weight      *int   `json:"weight,omitempty"`
	// Inputs and Outputs are storage_provider:path, and Storage says where the providers are that they name; only
	// Federation has them.
	Inputs  []string  `json:"inputs,omitempty"`
	Outputs []string  `json:"outputs,omitempty"`
	Storage []Storage `json:"storage,omitempty"`
	Status  *Status   `json:"status,omitempty"`
}

// Storage is where a storage provider is that a replica reads or writes.
type Storage struct {
	StorageProvider string `json:"storage_provider"`
	// ClusterID is the cluster whose own MinIO it is; empty for one outside of the clusters.
	ClusterID string `json:"cluster_id,omitempty"`
	// Endpoint is its address; empty when it is not known.
	Endpoint string `json:"endpoint,omitempty"`
}

// Replicas is a federation as one of its replicas sees it: the answer of
// GET /system/replicas/{service}.
type Replicas struct {
	GroupID    string `json:"group_id"`
	UID        string `json:"uid"`
	Topology   string `json:"topology"`
	Delegation string `json:"delegation"`
	Deployment string `json:"deployment"`
	Generation int64  `json:"generation"`
	// Revision of the federation record; the ETag is the same number in quotes.
	Revision int64 `json:"revision"`
	// Phase is preparing, applying, ready, aborted, rolling_back, rolled_back,
	// deleting, changing or degraded.
	Phase       string  `json:"phase"`
	Coordinator Address `json:"coordinator"`
	Self        Replica `json:"self"`
	// Replicas are those that Self lists; empty when it lists none, never null.
	Replicas []Replica `json:"replicas"`
	// Failed is the kept result of a creation that failed.
	Failed *Failed `json:"failed,omitempty"`
	// Removed are the members that this change removed; only in answers to changes.
	Removed []DeletedReplica `json:"removed,omitempty"`
	// RefreshToken is shown to those who may change the federation, when it has one.
	RefreshToken *RefreshToken `json:"refresh_token,omitempty"`
}

// Federation is a whole federation: the answer of GET /system/federations/{id}
// and an element of GET /system/federations.
type Federation struct {
	GroupID     string  `json:"group_id"`
	UID         string  `json:"uid"`
	Topology    string  `json:"topology"`
	Delegation  string  `json:"delegation"`
	Deployment  string  `json:"deployment"`
	Generation  int64   `json:"generation"`
	Revision    int64   `json:"revision"`
	Phase       string  `json:"phase"`
	Coordinator Address `json:"coordinator"`
	// Replicas are all members, the coordinator included.
	Replicas []Replica `json:"replicas"`
	// Leaving are removed members whose deletion waits for their clusters.
	Leaving []Replica `json:"leaving,omitempty"`
	// Edges are pairs of cluster_id/service_name: the first lists the second.
	Edges     [][2]string `json:"edges"`
	Owner     string      `json:"owner"`
	CreatedAt Time        `json:"created_at"`
	ChangedAt Time        `json:"changed_at"`
	Drift     string      `json:"drift"`
	// Hint is what a person can do about the first replica that is in trouble.
	Hint string `json:"hint,omitempty"`
	// RunState is started or stopped once one of them was ordered of its exposed service.
	RunState string `json:"run_state,omitempty"`
	Paused   bool   `json:"paused"`
	// Failed is the kept result of a creation that failed.
	Failed *Failed `json:"failed,omitempty"`
	// RefreshToken is shown to those who may change the federation, when it has one or a
	// member waits for one; not in a list.
	RefreshToken *RefreshToken `json:"refresh_token,omitempty"`
}

// Failed is the outcome of a creation that failed.
type Failed struct {
	// Rollback is not_needed, complete, pending or failed.
	Rollback string          `json:"rollback"`
	Replicas []FailedReplica `json:"replicas"`
}

// FailedReplica is one replica of a failed creation.
type FailedReplica struct {
	Type        string `json:"type"`
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
	// Cause is null for a replica that did nothing wrong.
	Cause    *Cause   `json:"cause"`
	Rollback Rollback `json:"rollback"`
}

// Cause says why a replica could not be made.
type Cause struct {
	Reason    string `json:"reason"`
	Operation string `json:"operation,omitempty"`
	// Status is what OSCAR answered; 0 when it did not.
	Status  int    `json:"status,omitempty"`
	Message string `json:"message"`
}

// Rollback is what became of one replica of a failed creation.
type Rollback struct {
	// State is not_created, deleted, pending, failed or kept; not_needed when
	// nothing was asked of it.
	State   string `json:"state"`
	Message string `json:"message"`
}
