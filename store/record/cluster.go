package record

// Cluster is the registration of one OSCAR cluster.
type Cluster struct {
	V             int               `json:"v"`
	ClusterID     string            `json:"cluster_id"`
	UID           string            `json:"uid" record:"id"`
	Endpoint      string            `json:"endpoint"`
	SSLVerify     bool              `json:"ssl_verify"`
	Labels        map[string]string `json:"labels"`
	State         ClusterState      `json:"state"`
	AllowedGroups []string          `json:"allowed_groups"`
	RegisteredAt  Time              `json:"registered_at"`
	// LastSeen is when the last session ended; the zero value while one lives.
	LastSeen *Time `json:"last_seen,omitempty"`
	// Removal goes with the state removing, and only with that.
	Removal *Removal `json:"removal,omitempty"`
	// Joined is nil until a syncer has joined with a token.
	Joined *Joined `json:"joined,omitempty"`
	// Revoked stays until the cluster is readmitted, also while it is being removed.
	Revoked *Revocation `json:"revoked,omitempty"`
	// ReadmittedAt is when the last revocation ended; nil before the first one has.
	ReadmittedAt *Time `json:"readmitted_at,omitempty"`
}

// Revocation says why a cluster has no rights in etcd any more.
type Revocation struct {
	Message string `json:"message"`
	At      Time   `json:"at" record:"id"`
	// State is the one that a readmission gives back; empty is active.
	State ClusterState `json:"state,omitempty"`
}

// Fence is bumped by whatever changes the set of clusters that may be placed on.
type Fence struct {
	V    int    `json:"v"`
	Bump int64  `json:"bump"`
	Why  string `json:"why"`
}

// DesiredCluster is what a syncer must know of its own cluster.
type DesiredCluster struct {
	V            int          `json:"v"`
	ClusterID    string       `json:"cluster_id"`
	UID          string       `json:"uid" record:"id"`
	ControlPlane string       `json:"control_plane"`
	Epoch        string       `json:"epoch"`
	State        ClusterState `json:"state"`
	// RestoredAt is when the present epoch began; nil in the first one.
	RestoredAt *Time `json:"restored_at,omitempty"`
	// Minimum is what the cluster's syncer must read and write. No version has asked for any yet.
	Minimum
	// RemovedAt goes with the state removed.
	RemovedAt *Time `json:"removed_at,omitempty"`
	// Joined stays of the registration of a cluster that was removed: it may renew its
	// certificate to learn what it has to do.
	Joined *Joined `json:"joined,omitempty"`
	// Revoked stays of a cluster that was removed after it was revoked, or that is
	// revoked while it does its last orders.
	Revoked *Revocation `json:"revoked,omitempty"`
	// SameOscarAs names the cluster that the same OSCAR was registered as before: while it
	// is there, nothing is written to that OSCAR for this one.
	SameOscarAs string `json:"same_oscar_as,omitempty"`
}

// ObservedCluster is what a syncer knows of its OSCAR.
type ObservedCluster struct {
	V int `json:"v"`
	// Recipient is the age recipient of the syncer. SharedKeys says that it opens shares
	// under a key that was agreed on before (seal.Sealer).
	Recipient     string `json:"recipient"`
	SharedKeys    bool   `json:"shared_keys,omitempty"`
	OscarVersion  string `json:"oscar_version"`
	MinioEndpoint string `json:"minio_endpoint"`
	MinioRegion   string `json:"minio_region"`
	// MinioVerify says whether its certificate is verified; nil is not known.
	MinioVerify   *bool  `json:"minio_verify,omitempty"`
	KubeSystemUID string `json:"kube_system_uid,omitempty"`
	// Denied names the rights in Kubernetes that the syncer needs and has not.
	Denied []string `json:"denied,omitempty"`
	// OscarID says which OSCAR it is, by a mark that the first syncer left there; empty
	// when that is not known.
	OscarID string `json:"oscar_id,omitempty"`
	// InDoubt names the list of writes in doubt that the last syncer keeps on its disk; empty for none.
	InDoubt string `json:"in_doubt,omitempty"`
	// QueueS is the length of the write queue in seconds, in whole minutes.
	QueueS int64  `json:"queue_s"`
	Reason Reason `json:"reason,omitempty"`
	// Message goes with the reason. Away says that it has kept the syncer from working on the
	// cluster for so long that no request waits for it.
	Message string `json:"message,omitempty"`
	Away    bool   `json:"away,omitempty"`
	// Orphans are marked services that no desired record speaks of: held.
	Orphans []Orphan `json:"orphans,omitempty"`
	// OrphansAt is the revision of the store after which they were listed; 0 without any. What was
	// committed later they do not show.
	OrphansAt int64 `json:"orphans_at,omitempty"`
	// Epoch in which every service was last compared with what is desired.
	Epoch string `json:"epoch,omitempty"`
	// JobsEpoch is the one in which OSCAR's Jobs were listed and every attempt among
	// them was reported.
	JobsEpoch string `json:"jobs_epoch,omitempty"`
	// Unlisted are services of ours on which no Jobs could be listed in JobsEpoch, so that
	// they count as ones without.
	Unlisted []Unlisted `json:"unlisted,omitempty"`
}

// Unlisted is a local service that has, or had, our mark and whose Jobs are not known.
type Unlisted struct {
	ServiceName string `json:"service_name" record:"id"`
	Reason      Reason `json:"reason"`
	Message     string `json:"message"`
}

// Orphan is a local service with our mark and without a desired record.
type Orphan struct {
	ServiceName string `json:"service_name" record:"id"`
	UID         string `json:"uid" record:"id"`
	Generation  int64  `json:"generation"`
	Reason      Reason `json:"reason"`
	// Epoch of its marks, and the federation that they name.
	Epoch      string `json:"epoch,omitempty"`
	Federation string `json:"federation,omitempty"`
	// ClusterID is the cluster that it was made for; empty in reports of older syncers.
	ClusterID string `json:"cluster_id,omitempty"`
	// Mark is the fingerprint of its token: what a user made from our annotations has another one.
	Mark string `json:"mark,omitempty"`
	// Settings are those of the federation, on its coordinator.
	Settings string `json:"settings,omitempty"`
}

// Session is put at start with the syncer's lease.
type Session struct {
	V         int    `json:"v"`
	Instance  string `json:"instance"`
	Version   string `json:"version"`
	StartedAt Time   `json:"started_at"`
	// Lock is a name that the syncer holds until it ends: another syncer that holds it knows that this one has ended. Empty
	// for none.
	Lock string `json:"lock,omitempty"`
	// Forms are those of the syncer; zero of one that does not announce them.
	Forms
	// Parts says that the syncer reads parts, and that its way to etcd lets it.
	Parts bool `json:"parts,omitempty"`
	// RunStates says that the syncer stops and starts exposed services.
	RunStates bool `json:"run_states,omitempty"`
}
