package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

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
	// Paused is Halted of the federation.
	Paused bool `json:"paused"`
	// RunState is what was ordered of an exposed service; empty when nothing was.
	RunState RunState `json:"run_state,omitempty" words:"started,stopped"`
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
	// Told is what was reported of it, where that counts, when a readmission of its cluster deleted the report.
	Told *Told `json:"told,omitempty"`
	// SecretLeft says that an earlier life of the same owner has left the Secret of the service's name: it is overwritten.
	SecretLeft bool `json:"secret_left,omitempty"`
	// Keep is release when the service is not to be deleted but given free: it
	// stays, without our marks.
	Keep string `json:"keep,omitempty" words:"release"`
}

// Told is what is kept of a report that is deleted.
type Told struct {
	// Applied is the newest generation that was seen in place.
	Applied int64 `json:"applied,omitempty"`
	// BucketsMade and Volume are to be deleted with a service.
	BucketsMade []string `json:"buckets_made,omitempty"`
	Volume      *Volume  `json:"volume,omitempty"`
	// Bare is Observed.Bare of a life that was not seen in place since.
	Bare string `json:"bare,omitempty"`
	// End is how the tombstone was acknowledged: it is acknowledged so again.
	End *End `json:"end,omitempty"`
}

// End is what an acknowledged tombstone's report says beside its phase.
type End struct {
	BucketsMade []string     `json:"buckets_made,omitempty"`
	BucketFates []BucketFate `json:"bucket_fates,omitempty"`
	VolumeFate  *VolumeFate  `json:"volume_fate,omitempty"`
	SecretLeft  bool         `json:"secret_left,omitempty"`
	Operation   string       `json:"operation,omitempty"`
	Message     string       `json:"message,omitempty"`
}

// VolumeOf is what was reported last that the service of a life mounts; nil for nothing. Both may be nil.
func VolumeOf(d *Desired, o *Observed) *Volume {
	switch {
	case o != nil && o.Volume != nil:
		return o.Volume
	case d != nil && d.Told != nil:
		return d.Told.Volume
	}
	return nil
}

// End is how the tombstone was acknowledged before a readmission; nil when it was not.
func (d *Desired) End() *End {
	if d.Told == nil || !d.Tombstone() {
		return nil
	}
	return d.Told.End
}

// Tombstone says whether the record orders a deletion.
func (d *Desired) Tombstone() bool { return d.Intent == IntentDelete }

// Spec is a rendered service, immutable once written.
type Spec struct {
	V int `json:"v"`
	// Owner is whose bytes it is counted for; empty in records of older versions.
	Owner string `json:"owner,omitempty"`
	// Service is the definition without any secret; empty with Parts.
	Service json.RawMessage `json:"service,omitempty"`
	// Sealed is an age envelope (base64) around an RFC 7386 merge patch with the
	// secrets and the service token; with Parts, around a SealedChanges.
	Sealed string `json:"sealed"`
	// Parts name the parts that the replica shares with others of its federation, in their
	// order, and Changes is a merge patch on what they are together.
	Parts   []string        `json:"parts,omitempty"`
	Changes json.RawMessage `json:"changes,omitempty"`
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
	Service   json.RawMessage `json:"service,omitempty"`
	// Parts and Changes stand in place of Service, as in Spec.
	Parts   []string        `json:"parts,omitempty"`
	Changes json.RawMessage `json:"changes,omitempty"`
}

// Mark is the public fingerprint of a service token.
func Mark(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}
