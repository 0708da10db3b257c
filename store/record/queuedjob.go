package record

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"time"
	"unique"

	"github.com/google/uuid"
)

// QueuedJob is the record of a job that waits for its first attempt, in a fifth of the bytes that
// a Job takes in memory: of a million jobs that wait, most differ in little. Two of them are equal
// when their records are.
type QueuedJob struct {
	// shared is what many jobs have in common.
	shared unique.Handle[QueuedShared]
	job    string
	// request is Job.Request, of which the digits of a hash are packed.
	request string
	hashed  bool
	// requestID is a UUID: a job with another id is not packed.
	requestID uuid.UUID
	size      int32
	// accepted and changed are in milliseconds since 1970.
	accepted, changed int64
}

// QueuedShared is the part of a QueuedJob that many jobs have in common.
type QueuedShared struct {
	Federation, GroupID, Owner, Cluster, Service, By, Epoch string
	BucketEvent                                             bool
}

// PackJob packs the record of a job. It is false for a job that is not queued, was tried before, or
// has anything that a QueuedJob does not hold: Encode would not give the same bytes again. id is the
// id of the job in its key, whose memory the result shares.
func PackJob(id string, value []byte) (QueuedJob, bool) {
	if !bytes.Contains(value, []byte(`"state":"queued"`)) {
		return QueuedJob{}, false
	}
	var j Job
	if json.Unmarshal(value, &j) != nil || j.Job != id || j.State != JobQueued {
		return QueuedJob{}, false
	}
	requestID, err := uuid.Parse(j.RequestID)
	if err != nil {
		return QueuedJob{}, false
	}
	q := QueuedJob{
		job: id, requestID: requestID, size: int32(min(max(j.Size, 0), 1<<30)),
		accepted: j.AcceptedAt.UnixMilli(), changed: j.ChangedAt.UnixMilli(),
		shared: unique.Make(QueuedShared{
			Federation: j.Federation, GroupID: j.GroupID, Owner: j.Owner, Cluster: j.Cluster, Service: j.Service,
			By: j.By, Epoch: j.Epoch, BucketEvent: j.BucketEvent,
		}),
	}
	if hash, err := hex.DecodeString(j.Request); err == nil {
		q.request, q.hashed = string(hash), true
	} else {
		q.request = j.Request
	}
	again, err := q.Encode()
	return q, err == nil && bytes.Equal(again, value)
}

// Shared is the part that many jobs have in common.
func (q *QueuedJob) Shared() QueuedShared { return q.shared.Value() }

// AcceptedAt is when the job was accepted.
func (q *QueuedJob) AcceptedAt() time.Time { return At(time.UnixMilli(q.accepted)).Time }

// Job is the record, made anew at each call.
func (q *QueuedJob) Job() *Job {
	of := q.shared.Value()
	j := &Job{
		V: Version, Job: q.job, Federation: of.Federation, GroupID: of.GroupID, Owner: of.Owner, Cluster: of.Cluster, Service: of.Service,
		By: of.By, RequestID: q.requestID.String(), Request: q.request, Size: int(q.size), BucketEvent: of.BucketEvent, State: JobQueued,
		AcceptedAt: At(time.UnixMilli(q.accepted)), ChangedAt: At(time.UnixMilli(q.changed)), Epoch: of.Epoch,
	}
	if q.hashed {
		j.Request = hex.EncodeToString([]byte(q.request))
	}
	return j
}

// Encode gives the bytes that were packed.
func (q *QueuedJob) Encode() ([]byte, error) { return Encode(q.Job()) }
