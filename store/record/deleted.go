package record

// Deleted remembers a replica whose tombstone was acknowledged, for 90 days.
type Deleted struct {
	V           int    `json:"v"`
	UID         string `json:"uid" record:"id"`
	Federation  string `json:"federation"`
	GroupID     string `json:"group_id"`
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
	Owner       string `json:"owner"`
	Generation  int64  `json:"generation"`
	Cause       Cause  `json:"cause"`
	// ClusterUID is the registration that the replica was on: what was left there
	// says nothing about another machine that has the cluster's name now.
	ClusterUID string `json:"cluster_uid,omitempty"`
	// BucketsLeft are those that this life made and that stood at the end: a later
	// life of the same owner may attach to them.
	BucketsLeft []string `json:"buckets_left,omitempty"`
	// BucketFates is what the syncer said of every bucket.
	BucketFates []BucketFate `json:"bucket_fates,omitempty"`
	// VolumeFate is what it said of the volume; nil without one.
	VolumeFate *VolumeFate `json:"volume_fate,omitempty"`
	// SecretLeft says that OSCAR could not be made to delete the service's Secret: the next life of the same owner
	// overwrites it.
	SecretLeft bool `json:"secret_left,omitempty"`
	// Foreign says that what carries our marks at the place is not ours, or not any
	// more: no tombstone is written for it again.
	Foreign   bool `json:"foreign,omitempty"`
	DeletedAt Time `json:"deleted_at"`
}

// Remember takes from a report what the end of the replica has left. A service that was given free keeps what it has.
func (d *Deleted) Remember(o *Observed, keep string) {
	d.SecretLeft = o.SecretLeft
	if keep == "" {
		d.BucketsLeft, d.BucketFates, d.VolumeFate = o.BucketsMade, o.BucketFates, o.VolumeFate
	}
}

// BucketFate is what became of one bucket of a replica that was deleted.
type BucketFate struct {
	Bucket string `json:"bucket" record:"id"`
	// Fate is BucketKept or BucketDeleted.
	Fate string `json:"fate"`
	// Objects that it held; nil when they could not be counted, or are not the owner's
	// to know.
	Objects *int64 `json:"objects,omitempty"`
	// AtLeast says that there may be more: counting ended there.
	AtLeast bool `json:"at_least,omitempty"`
	// Why it was kept although its deletion was ordered.
	Why string `json:"why,omitempty"`
}

// Fates of buckets and volumes.
const (
	BucketKept    = "kept"
	BucketDeleted = "deleted"
)

// Volume is the managed volume of a service.
type Volume struct {
	Name string `json:"name" record:"id"`
	// Deletable says that the service's creation made it, and that its definition does
	// not say retain: it goes when that is ordered.
	Deletable bool `json:"deletable,omitempty"`
}

// VolumeFate is what became of the volume of a replica that was deleted.
type VolumeFate struct {
	Volume string `json:"volume" record:"id"`
	// Fate is BucketKept or BucketDeleted.
	Fate string `json:"fate"`
	// Why it was kept although its deletion was ordered.
	Why string `json:"why,omitempty"`
}
