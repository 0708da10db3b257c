package record

import "net/http"

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
	// OscarVersion is of the OSCAR that ReadBack was last seen from, or of one before it. It is empty
	// where drift is repaired.
	OscarVersion string `json:"oscar_version,omitempty"`
	// AppliedGeneration is the one that ReadBack is of, when that is not the
	// observed one: a newer one is not in place yet.
	AppliedGeneration int64 `json:"applied_generation,omitempty"`
	// RunState is how an exposed service was last seen, when its desired record orders any.
	RunState RunState `json:"run_state,omitempty"`
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
	// SecretLeft goes with phase deleted: the service's Secret stands yet.
	SecretLeft bool   `json:"secret_left,omitempty"`
	Reason     Reason `json:"reason"`
	// Operation and Status tell which call to OSCAR failed and what it answered. An acknowledged
	// tombstone has OperationDelete when something of ours was deleted for it. With phase deleting,
	// OperationDelete and 204 say that OSCAR answered the DELETE as the syncer was stopped.
	Operation          string `json:"operation,omitempty"`
	Status             int    `json:"status,omitempty"`
	Message            string `json:"message"`
	LastTransitionTime Time   `json:"last_transition_time"`
	// Remade goes with phase drifted: the service had vanished, and a POST that makes it again may have been sent.
	Remade bool `json:"remade,omitempty"`
	// SilentInputs are buckets of its inputs that were made again, perhaps without the service's notification: uploads
	// there may start no job.
	SilentInputs []string `json:"silent_inputs,omitempty"`
	// WaitsUntil is set while the syncer writes nothing to OSCAR for it: what was sent before and not answered, perhaps by
	// an earlier syncer, may take effect until then.
	WaitsUntil *Time `json:"waits_until,omitempty"`
	// PutSent says that a PUT of the service was sent, or was about to be, in a life that has not been in place since. It may
	// take effect after its syncer has ended.
	PutSent bool `json:"put_sent,omitempty"`
	// Bare is the service with nothing but its marks and its token, sealed to its cluster. It is there while a write
	// of this life may leave the service's Secret alone: with it the service is made once more, and deleted with its
	// Secret.
	Bare string `json:"bare,omitempty"`
	// Epoch in which the report was made.
	Epoch string `json:"epoch,omitempty"`
	// Held goes with phase held: what is on the cluster and not in the store's history.
	Held *Held `json:"held,omitempty"`
	// Inputs goes with a worker whose minio.default is its origin's; nil for one with the storage
	// of its own cluster, and until the syncer has read them.
	Inputs *Inputs `json:"inputs,omitempty"`
}

// VoteOn is the vote on a revision of the desired record; nil for none.
func (o *Observed) VoteOn(revision int64) *Vote {
	if o == nil || o.Vote == nil || o.Vote.Revision != revision {
		return nil
	}
	return o.Vote
}

// Held is how a cluster differs from the store.
type Held struct {
	Kind HeldKind `json:"kind" record:"id"`
	// Epoch and Generation of the service's marks; 0 when they were dropped, or it
	// is missing.
	Epoch      string `json:"epoch,omitempty"`
	Generation int64  `json:"generation"`
}

// Erased says that OSCAR has answered the DELETE of this life, as a syncer reports that is stopped in it. It may be nil.
func (o *Observed) Erased() bool {
	return o != nil && o.Phase == PhaseDeleting && o.Operation == OperationDelete && o.Status == http.StatusNoContent
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
