package v1

import "encoding/json"

// Cluster is a registered cluster: the answer of GET /system/clusters/{id}. It
// is the registration record with what is computed from the syncer's reports. One
// without a UID is what a user is shown: see MarshalJSON.
type Cluster struct {
	V         int               `json:"v"`
	ClusterID string            `json:"cluster_id"`
	UID       string            `json:"uid"`
	Endpoint  string            `json:"endpoint"`
	SSLVerify bool              `json:"ssl_verify"`
	Labels    map[string]string `json:"labels"`
	// State is active, paused, cordoned, revoked or removing.
	State         string   `json:"state"`
	AllowedGroups []string `json:"allowed_groups"`
	RegisteredAt  Time     `json:"registered_at"`

	// Alive says whether the cluster's syncer has a session.
	Alive bool `json:"alive"`
	// Stream says that the syncer has a stream to the instance that answers.
	Stream       bool   `json:"stream,omitempty"`
	OscarVersion string `json:"oscar_version"`
	// SyncerVersion is that of the syncer that has a session; empty without one.
	SyncerVersion string `json:"syncer_version,omitempty"`
	// MinioEndpoint is the address of the cluster's MinIO, where its OSCAR has told it.
	MinioEndpoint string `json:"minio_endpoint,omitempty"`
	// DeniedRights are those in Kubernetes that the syncer needs and has not.
	DeniedRights []string `json:"denied_rights,omitempty"`
	// LastSeen is when the last session ended; null while one lives, or when
	// there was none.
	LastSeen *Time `json:"last_seen"`
	// QueueS is the length of the cluster's write queue in seconds.
	QueueS int64 `json:"queue_s"`
	// Reason is set when the syncer cannot work with its OSCAR; Message says more.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Hint is what a person can do about its state; empty when there is nothing to do.
	Hint string `json:"hint,omitempty"`
	// Orphans are services with our mark that no record speaks of; they are held.
	Orphans []Orphan `json:"orphans,omitempty"`
	// Unlisted are services whose jobs are not known since etcd was restored.
	Unlisted []Unlisted `json:"unlisted,omitempty"`
	// Removal is there while the cluster is being removed.
	Removal *ClusterRemoval `json:"removal,omitempty"`
	// Joined is there once a syncer has joined with a token.
	Joined *ClusterJoined `json:"joined,omitempty"`
	// Revoked is there while the cluster has no rights in etcd, since it has passed the
	// limits of what it may write.
	Revoked *ClusterRevocation `json:"revoked,omitempty"`
}

// MarshalJSON leaves out what a user is not shown, in place of empty values.
func (c Cluster) MarshalJSON() ([]byte, error) {
	type whole Cluster
	if c.UID != "" {
		return json.Marshal(whole(c))
	}
	return json.Marshal(struct {
		V            int               `json:"v"`
		ClusterID    string            `json:"cluster_id"`
		Labels       map[string]string `json:"labels"`
		State        string            `json:"state"`
		Alive        bool              `json:"alive"`
		OscarVersion string            `json:"oscar_version"`
		Reason       string            `json:"reason,omitempty"`
		Hint         string            `json:"hint,omitempty"`
	}{c.V, c.ClusterID, c.Labels, c.State, c.Alive, c.OscarVersion, c.Reason, c.Hint})
}

// ClusterRevocation says why a cluster has no rights any more.
type ClusterRevocation struct {
	Message string `json:"message"`
	At      Time   `json:"at"`
}

// ClusterRemoval is how far a removal has come.
type ClusterRemoval struct {
	Orphan    bool `json:"orphan"`
	Force     bool `json:"force"`
	StartedAt Time `json:"started_at"`
	// Federations counts those that have not left the cluster yet, Tombstones the
	// orders that it has not acknowledged.
	Federations int `json:"federations"`
	Tombstones  int `json:"tombstones"`
	// Waits says what it waits for, and Blocked that a person must do that.
	Waits   string `json:"waits,omitempty"`
	Blocked bool   `json:"blocked"`
}

// Orphan is a marked service without a desired record.
type Orphan struct {
	ServiceName string `json:"service_name"`
	UID         string `json:"uid"`
	Generation  int64  `json:"generation"`
	Reason      string `json:"reason"`
}

// Unlisted is a service whose jobs its syncer could not list, and why.
type Unlisted struct {
	ServiceName string `json:"service_name"`
	Reason      string `json:"reason"`
	Message     string `json:"message"`
}

// ClusterSpec is what an administrator says of a cluster: the body of
// POST /system/clusters and PUT /system/clusters/{id}.
type ClusterSpec struct {
	ClusterID string `json:"cluster_id"`
	// Endpoint is the base URL of the cluster's OSCAR Manager.
	Endpoint string `json:"endpoint"`
	// SSLVerify is true when it is not given.
	SSLVerify     *bool             `json:"ssl_verify,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	AllowedGroups []string          `json:"allowed_groups,omitempty"`
}
