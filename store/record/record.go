package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Time is written as RFC 3339 with milliseconds in UTC.
type Time struct{ time.Time }

// TimeLayout is the wire form of Time.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// At rounds t to what a record can hold.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(TimeLayout) + `"`), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return err
	}
	v = v.UTC()
	if year := v.Year(); year < 0 || year > 9999 {
		// An offset moved it to a year that RFC 3339 cannot write.
		return fmt.Errorf("time %q is not between the years 0 and 9999 in UTC", s)
	}
	t.Time = v
	return nil
}

// Meta is written when a control plane first meets an empty store, and when the
// store was restored.
type Meta struct {
	V            int    `json:"v"`
	Schema       int    `json:"schema"`
	ControlPlane string `json:"control_plane"`
	Epoch        string `json:"epoch"`
	// Recipient is that of the identity which all instances share.
	Recipient string `json:"recipient"`
	CreatedAt Time   `json:"created_at"`
	// RestoredAt is when the present epoch began; nil in the first one.
	RestoredAt *Time `json:"restored_at,omitempty"`
	// Epochs are the former ones, oldest first.
	Epochs []string `json:"epochs,omitempty"`
	Minimum
}

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
}

// Revocation says why a cluster has no rights in etcd any more.
type Revocation struct {
	Message string `json:"message"`
	At      Time   `json:"at" record:"id"`
}

// Fence is bumped by whatever changes the set of clusters that may be placed on.
type Fence struct {
	V    int    `json:"v"`
	Bump int64  `json:"bump"`
	Why  string `json:"why"`
}

// Request makes a repeated request get the outcome of the first. Answer is nil
// until the outcome is known.
type Request struct {
	V         int    `json:"v"`
	BodyHash  string `json:"body_hash"`
	UID       string `json:"uid" record:"id"`
	RequestID string `json:"request_id" record:"id"`
	CreatedAt Time   `json:"created_at"`
	// Keyed is false for a request that came without an Idempotency-Key: it
	// joins the one in flight, and is forgotten once there is an outcome.
	Keyed  bool    `json:"keyed"`
	Answer *Answer `json:"answer,omitempty"`
}

// Answer is the outcome of a request: the federation as it stood then.
type Answer struct {
	Phase Phase `json:"phase"`
	// Federation holds causes and rollbacks of a failed creation, and why a change
	// was refused.
	Federation *Federation `json:"federation,omitempty"`
}

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
	// Foreign says that what carries our marks at the place is not ours, or not any
	// more: no tombstone is written for it again.
	Foreign   bool `json:"foreign,omitempty"`
	DeletedAt Time `json:"deleted_at"`
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
	// Minimum is that of Meta, which a syncer may not read.
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

// Desired is what is asked of one service name on one cluster; with
// IntentDelete it is a tombstone and has no spec.
type Desired struct {
	V          int    `json:"v"`
	Intent     Intent `json:"intent"`
	Federation string `json:"federation"`
	GroupID    string `json:"group_id"`
	UID        string `json:"uid" record:"id"`
	Generation int64  `json:"generation"`
	RequestID  string `json:"request_id"`
	Owner      string `json:"owner"`
	Drift      string `json:"drift,omitempty" words:"enforce,report"`
	Paused     bool   `json:"paused"`
	// ReschedulerThreshold is how many seconds a Job may wait there before it is
	// offered; 0 means the cluster's own.
	ReschedulerThreshold int `json:"rescheduler_threshold,omitempty"`
	// Spec names the rendered service below specs/.
	Spec string `json:"spec,omitempty"`
	// Sees lists cluster/service of the members that this replica lists.
	Sees []string `json:"sees,omitempty"`
	// Mark is sha256:<hex> of the service token of this life: what carries the
	// token is ours. The token itself is random-looking and 256 bits long.
	Mark string `json:"mark"`
	// Deadline of a prepare (votes after it are late) or of an apply.
	Deadline *Time `json:"deadline,omitempty"`
	// DeadlineS is how many seconds there are until the deadline of an apply: its cluster
	// counts them from when it first sees the record, since clocks differ. Older control
	// planes do not say.
	DeadlineS int64 `json:"deadline_s,omitempty"`
	// Cause of a tombstone.
	Cause Cause `json:"cause,omitempty"`
	// Data is delete when the owner ordered the buckets to go with the service.
	Data string `json:"data,omitempty" words:"delete"`
	// Jobs is cancel when the owner ordered running jobs to be ended.
	Jobs string `json:"jobs,omitempty" words:"cancel"`
	// Epoch in which Generation was written, and the generations of other epochs
	// that may be overwritten or deleted.
	Epoch string   `json:"epoch,omitempty"`
	Past  []Branch `json:"past,omitempty"`
	// Again says that a person ordered a service to be made again that was applied in
	// an older epoch and is gone.
	Again bool `json:"again,omitempty"`
	// Keep is release when the service is not to be deleted but given free: it
	// stays, without our marks.
	Keep string `json:"keep,omitempty" words:"release"`
}

// Tombstone says whether the record orders a deletion.
func (d *Desired) Tombstone() bool { return d.Intent == IntentDelete }

// Spec is a rendered service, immutable once written.
type Spec struct {
	V int `json:"v"`
	// Owner is whose bytes it is counted for; empty in records of older versions.
	Owner string `json:"owner,omitempty"`
	// Service is the definition without any secret.
	Service json.RawMessage `json:"service"`
	// Sealed is an age envelope (base64) around an RFC 7386 merge patch with the
	// secrets and the service token.
	Sealed string `json:"sealed"`
	// Left names buckets that an earlier life of the same owner left behind, or that
	// another service of the federation, whose place it may take, made on the cluster.
	Left []string `json:"left,omitempty"`
	// LeftBy names the services that may have made those: the replica's own, and the
	// others of its federation.
	LeftBy []string `json:"left_by,omitempty"`
	// Origin is where a worker's minio.default is, where that is not its own cluster's;
	// nil for one that keeps its own. It stands beside the service, since one that is
	// sent to an OSCAR with it and without a syncer that answers for the origin takes no
	// job.
	Origin *OriginStorage `json:"origin,omitempty"`
	// VolumeGoes says that the volume which its creation makes may be deleted with it,
	// when that is ordered: its definition does not say retain. The service itself
	// always says so, lest OSCAR delete the volume by itself.
	VolumeGoes bool `json:"volume_goes,omitempty"`
}

// History is a service as it was submitted for one generation, without secrets.
type History struct {
	V int `json:"v"`
	// Owner is whose bytes it is counted for.
	Owner     string `json:"owner,omitempty"`
	RequestID string `json:"request_id"`
	// By is the subject of the caller who made this generation: the owner, or the
	// administrator.
	By        string          `json:"by"`
	ChangedAt Time            `json:"changed_at"`
	Service   json.RawMessage `json:"service"`
}

// Tokens carries the access token of a federation's owner to one cluster, whose
// syncer makes the service with it: so it is his on that OSCAR. It is written before
// the records that need it, by a creation or change of the owner's, and is of no use
// after it has expired. His refresh token goes in a Hold.
type Tokens struct {
	V int `json:"v"`
	// Generation of the federation that the owner was making, or had, when he gave it.
	Generation int64 `json:"generation"`
	// Expires is when the token does, by its issuer's clock.
	Expires Time `json:"expires"`
	// LifeS is how many seconds it had when it was written: who sees that counts them
	// from then. Older control planes do not say.
	LifeS int64 `json:"life_s,omitempty"`
	// Access is an age envelope (base64) around the token, for the cluster alone.
	Access string `json:"access"`
}

// Vote answers one revision of a desired record.
type Vote struct {
	Answer string `json:"answer"`
	// Revision is the mod revision of the desired record that is answered.
	Revision int64 `json:"revision" record:"id"`
	// DelayS is how many seconds of writes stand before this one.
	DelayS int64 `json:"delay_s"`
}

// Observed is the syncer's report about one service name.
type Observed struct {
	V     int    `json:"v"`
	Phase Phase  `json:"phase"`
	UID   string `json:"uid" record:"id"`
	// ObservedGeneration is the generation that the report speaks of.
	ObservedGeneration int64 `json:"observed_generation"`
	// DesiredRevision is the mod revision of the desired record that it answers.
	DesiredRevision int64  `json:"desired_revision"`
	Vote            *Vote  `json:"vote,omitempty"`
	ReadBack        string `json:"read_back,omitempty"`
	// Storage tells the storage of the origin that ReadBack was seen with from others;
	// empty for the cluster's own.
	Storage string `json:"storage,omitempty"`
	// AppliedGeneration is the one that ReadBack is of, when that is not the
	// observed one: a newer one is not in place yet.
	AppliedGeneration int64 `json:"applied_generation,omitempty"`
	// BucketsMade lists buckets that this life's writes made.
	BucketsMade []string `json:"buckets_made"`
	// Buckets are those of its inputs and outputs, when it was last ready.
	Buckets []string `json:"buckets,omitempty"`
	// BucketFates go with phase deleted.
	BucketFates []BucketFate `json:"bucket_fates,omitempty"`
	// Volume is what its service mounts, or mounted when it was last seen; nil for none.
	Volume *Volume `json:"volume,omitempty"`
	// VolumeFate goes with phase deleted; nil without a volume.
	VolumeFate *VolumeFate `json:"volume_fate,omitempty"`
	Reason     Reason      `json:"reason"`
	// Operation and Status tell which call to OSCAR failed and what it answered.
	Operation          string `json:"operation,omitempty"`
	Status             int    `json:"status,omitempty"`
	Message            string `json:"message"`
	LastTransitionTime Time   `json:"last_transition_time"`
	// Epoch in which the report was made.
	Epoch string `json:"epoch,omitempty"`
	// Held goes with phase held: what is on the cluster and not in the store's history.
	Held *Held `json:"held,omitempty"`
	// Inputs goes with a worker whose minio.default is its origin's; nil for one with
	// the storage of its own cluster, and as long as nobody has looked.
	Inputs *Inputs `json:"inputs,omitempty"`
}

// Held is how a cluster differs from the store.
type Held struct {
	Kind HeldKind `json:"kind" record:"id"`
	// Epoch and Generation of the service's marks; 0 when they were dropped, or it
	// is missing.
	Epoch      string `json:"epoch,omitempty"`
	Generation int64  `json:"generation"`
}

// Applied is the newest generation that was seen in place; 0 for none.
func (o *Observed) Applied() int64 {
	switch {
	case o.ReadBack == "":
		return 0
	case o.AppliedGeneration != 0:
		return o.AppliedGeneration
	}
	return o.ObservedGeneration
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
	// OscarID says which OSCAR it is, by a mark that the first syncer left there; empty
	// when that is not known.
	OscarID string `json:"oscar_id,omitempty"`
	// QueueS is the length of the write queue in seconds, in whole minutes.
	QueueS int64  `json:"queue_s"`
	Reason Reason `json:"reason,omitempty"`
	// Message goes with the reason. Away says that it has kept the syncer from working on
	// the cluster for so long that nobody waits for it.
	Message string `json:"message,omitempty"`
	Away    bool   `json:"away,omitempty"`
	// Orphans are marked services that no desired record speaks of: held.
	Orphans []Orphan `json:"orphans,omitempty"`
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
	// Mark is the fingerprint of its token: what somebody made from our annotations
	// has another one.
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
	// Forms are those of the syncer; zero of one that does not announce them.
	Forms
}

// Encode writes a record as one line of compact JSON without HTML escapes.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Mark is the public fingerprint of a service token.
func Mark(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}
