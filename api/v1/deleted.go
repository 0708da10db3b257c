package v1

// Deletion is the answer of DELETE /system/services/{service} to a caller who prefers
// a representation.
type Deletion struct {
	// Pending counts the replicas whose clusters have not acknowledged it yet.
	Pending  int              `json:"pending"`
	Replicas []DeletedReplica `json:"replicas"`
}

// DeletedReplica is one replica that was ordered to be deleted: also an element of
// GET /system/deleted.
type DeletedReplica struct {
	UID         string `json:"uid"`
	Federation  string `json:"federation"`
	GroupID     string `json:"group_id"`
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
	Owner       string `json:"owner"`
	// Cause is rollback, removed or deleted; empty when nothing of it was ever made.
	Cause   string `json:"cause"`
	Pending bool   `json:"pending"`
	// Message says why it is pending, as far as that is known.
	Message string `json:"message"`
	// Buckets are empty while it is pending, never null.
	Buckets []BucketFate `json:"buckets"`
	// Volume is absent without one, and while it is pending.
	Volume *VolumeFate `json:"volume,omitempty"`
	// DeletedAt is absent until its record is gone.
	DeletedAt *Time `json:"deleted_at,omitempty"`
}

// BucketFate is what became of one bucket of a deleted replica.
type BucketFate struct {
	Bucket string `json:"bucket"`
	// Fate is kept or deleted.
	Fate string `json:"fate"`
	// Objects that it held; absent when they could not be counted, or are not the
	// owner's to know. AtLeast says that there may be more.
	Objects *int64 `json:"objects,omitempty"`
	AtLeast bool   `json:"at_least,omitempty"`
	// Why it was kept although its deletion was ordered.
	Why string `json:"why,omitempty"`
}

// VolumeFate is what became of the volume of a deleted replica.
type VolumeFate struct {
	Volume string `json:"volume"`
	// Fate is kept or deleted.
	Fate string `json:"fate"`
	// Why it was kept although its deletion was ordered.
	Why string `json:"why,omitempty"`
}
