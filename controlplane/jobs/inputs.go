package jobs

import (
	"fmt"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// memberStorage is the minio.default that the jobs of a replica read and write.
type memberStorage struct {
	// cluster is the owner of the MinIO: the coordinator's, or the replica's own.
	cluster string
	// at is where the replica is.
	at string
	// broken is why it can be neither read nor written now; empty when it can as far as the
	// state knows. A cluster's own storage is never broken.
	broken string
}

// storageOf is the storage that the jobs of a replica read: a worker whose syncer reports on the
// origin's storage uses it; any other replica uses that of its own cluster.
func storageOf(v *view.View, m record.Member) memberStorage {
	out := memberStorage{cluster: m.ClusterID, at: m.ClusterID}
	o := v.Observed(m.ClusterID, m.ServiceName).Rec
	if m.Coordinator || o == nil || o.UID != m.UID || o.Inputs == nil {
		return out
	}
	d := v.Desired(m.ClusterID, m.ServiceName).Rec
	if d == nil {
		return out
	}
	if f := v.Federations.Get(d.Federation).Rec; f != nil && f.Coordinator() != nil {
		out.cluster = f.Coordinator().ClusterID
	}
	if !o.Inputs.Readable {
		out.broken = "the MinIO of " + out.cluster + " cannot be used from there"
		if o.Inputs.Message != "" {
			out.broken += ": " + o.Inputs.Message
		}
	}
	return out
}

// storageAt is the storage of the replica that received the job; the zero value when that
// replica is no member any more.
func (fl *Candidates) storageAt(j *record.Job) memberStorage {
	for i, m := range fl.Members {
		if m.Replica() && m.ClusterID == j.Cluster && m.ServiceName == j.Service {
			return fl.storage[i]
		}
	}
	return memberStorage{}
}

// readBy says for a job whether a replica with some storage can read its inputs, and why
// not. bucket says that its event names an object, and entry is the storage of the replica that
// received the job: the object is there.
//
// A replica whose storage is broken takes no job at all: OSCAR would refuse it, or its
// outputs would be lost.
func readBy(bucket bool, entry memberStorage) func(memberStorage) (delegation.Inputs, string) {
	return func(here memberStorage) (delegation.Inputs, string) {
		switch {
		case here.broken != "":
			return delegation.InputsUnreadable, here.broken
		case !bucket || here.cluster == entry.cluster:
			return delegation.InputsReadable, ""
		case entry.cluster == "":
			return delegation.InputsUnknown, "the job came in at a place that is no member any more, and its event names an object there"
		case here.cluster == here.at:
			return delegation.InputsUnreadable, fmt.Sprintf("it reads the MinIO of its own cluster, and the event names an object in that of %s", entry.cluster)
		}
		return delegation.InputsUnreadable, fmt.Sprintf("it reads the MinIO of %s, and the event names an object in that of %s", here.cluster, entry.cluster)
	}
}

// needsOwner says whether OSCAR is to start a job at a storage for an access token of the
// owner: it uses that of another cluster, and its event names no user.
func needsOwner(j *record.Job, here memberStorage) bool {
	return here.cluster != here.at && !j.BucketEvent
}

// notByOwner is why such a job is not sent to an OSCAR that would answer 404.
const notByOwner = "OSCAR starts no such job there: by the owner's access token, which an event that is not a bucket's needs where the storage is the origin's, " +
	"it looks for the service under what stands before the @ of his subject, and finds no private one; with visibility public it does"
