package v1

// Differences is how the clusters differ from the store after it was restored from an
// older backup: the answer of GET /system/differences.
type Differences struct {
	// Epoch is the present history of the store, RestoredAt when it began; null in
	// the first one.
	Epoch      string       `json:"epoch"`
	RestoredAt *Time        `json:"restored_at"`
	Clusters   []Comparison `json:"clusters"`
	// Differences are the services that are held, by cluster and name.
	Differences []Difference `json:"differences"`
}

// Comparison says whether a cluster has compared what stands on it with the store.
type Comparison struct {
	ClusterID string `json:"cluster_id"`
	Compared  bool   `json:"compared"`
	Alive     bool   `json:"alive"`
	LastSeen  *Time  `json:"last_seen"`
}

// Kinds of differences: a service of a newer generation than the store has, one that stood and is gone, and one
// with our marks that the store does not know.
const (
	DifferenceAhead   = "ahead"
	DifferenceMissing = "missing"
	DifferenceOrphan  = "orphan"
)

// The sides of a difference that a person may keep.
const (
	KeepCluster = "cluster"
	KeepStore   = "store"
)

// Difference is one service that is held.
type Difference struct {
	// Kind is DifferenceAhead, DifferenceMissing or DifferenceOrphan.
	Kind        string `json:"kind"`
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
	UID         string `json:"uid"`
	// Federation, GroupID and Owner are left out when the store does not have it.
	Federation string `json:"federation,omitempty"`
	GroupID    string `json:"group_id,omitempty"`
	Owner      string `json:"owner,omitempty"`
	// StoreGeneration is what is desired, ClusterGeneration what stands; 0 for nothing. ClusterEpoch is the
	// history that this one is of; empty for the first.
	StoreGeneration   int64  `json:"store_generation"`
	ClusterGeneration int64  `json:"cluster_generation"`
	ClusterEpoch      string `json:"cluster_epoch,omitempty"`
	Message           string `json:"message"`
	// KeepStore and KeepCluster say what taking that side does; left out when that is
	// not possible.
	KeepStore   string `json:"keep_store,omitempty"`
	KeepCluster string `json:"keep_cluster,omitempty"`
	// Resolving says that keeping the cluster's was decided, and waits for its syncer.
	Resolving bool `json:"resolving,omitempty"`
}

// Resolve takes a side in one difference: the body of POST /system/differences.
type Resolve struct {
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
	// Keep is KeepCluster or KeepStore.
	Keep string `json:"keep"`
}
