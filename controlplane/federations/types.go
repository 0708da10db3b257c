package federations

import (
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

// CreateRequest is one POST of a service definition.
type CreateRequest struct {
	Service *oscar.Service
	// Body is what was sent: its hash tells a repeated request from another one.
	Body []byte
	// IdempotencyKey is empty when the caller gave none.
	IdempotencyKey string
	RequestID      string
	// ClusterID is where a definition that names no cluster is created; empty for the default cluster.
	ClusterID string
	// Deployment overrides the definition: transactional, best-effort or empty.
	Deployment string
	// Plan is the digest of the plan that this creation must be; empty demands none.
	Plan string
	// Wait is how long to wait for the outcome; 0 returns as soon as the
	// request is accepted.
	Wait time.Duration
}

// repeat is what tells the same request again: its body, and what it says beside it.
func (r CreateRequest) repeat() request.Repeat {
	out := request.Repeat{Key: r.IdempotencyKey, Method: "POST", Path: "/system/services", Body: string(r.Body)}
	if r.Deployment != "" || r.Plan != "" {
		out.Body = r.Deployment + "\n" + r.Plan + "\n" + out.Body // no definition begins like that
	}
	if r.ClusterID != "" {
		out.Body = "?cluster_id=" + r.ClusterID + "\n" + out.Body // nor like that
	}
	return out
}

// CreateResult is an accepted creation.
type CreateResult struct {
	Federation view.Federation
	// Replayed says that an earlier request with the same key had this outcome.
	Replayed bool
	// Done says that the outcome is known: phase ready. When it is false the
	// caller asked not to wait.
	Done bool
	// Away lists, for a best-effort deployment, the replicas that are not ready.
	Away []view.Replica
}

// Replicas is the created federation as its coordinator sees it.
func (r *CreateResult) Replicas() *view.Replicas {
	self := slices.IndexFunc(r.Federation.Members, func(m view.Replica) bool { return m.Coordinator })
	out := view.AsSeen(r.Federation, max(self, 0))
	return &out
}

// DeleteOptions are the orders that go with a deletion.
type DeleteOptions struct {
	ClusterID string
	RequestID string
	// Data is record.DataDelete to delete the buckets that our creates made.
	Data string
	// Jobs is record.JobsCancel to end running jobs.
	Jobs string
	// IfMatch is the revision that the federation must have; 0 demands none.
	IfMatch int64
	Wait    time.Duration
	Repeat  request.Repeat
}

// DeleteResult has the outcome for each replica, and how many still hold a tombstone.
type DeleteResult struct {
	Pending int
	// Replayed says that an earlier request with the same key had this outcome.
	Replayed bool
	Replicas []v1.DeletedReplica
}

// ChangeRequest is one PUT of a service definition: a full replace. Empty secrets
// mean unchanged.
type ChangeRequest struct {
	Service   *oscar.Service
	RequestID string
	// IfMatch is the revision that the federation must have; 0 demands none.
	IfMatch int64
	// Plan is the digest of the plan that this change must be; empty demands none.
	Plan string
	// Wait is how long to wait until the change is applied everywhere; the votes
	// of added members are waited for in any case.
	Wait   time.Duration
	Repeat request.Repeat
}

// ReplicasRequest changes the members of a federation. Without IfMatch, additions and removals
// merge with those of others.
type ReplicasRequest struct {
	// ClusterID is the cluster of the addressed replica, when several have its name.
	ClusterID string
	// Add names new members; one that is there, and equal, is left as it is.
	Add []oscar.Member
	// Remove names members by identity; one that is not there is no error.
	Remove []oscar.Member
	// Replace turns members into others, or changes their settings.
	Replace []Replacement
	// RemoveAll removes every member but the coordinator.
	RemoveAll bool
	// List is the path, in the request, of the list that Add or the To of Replace come from,
	// for violations. It is empty when the list is the whole body.
	List string
	// Data is record.DataDelete to delete the buckets that creates of removed members made.
	Data string
	// Jobs is record.JobsCancel to end running jobs of removed members.
	Jobs      string
	RequestID string
	IfMatch   int64
	Wait      time.Duration
	Repeat    request.Repeat
}

// Replacement replaces the member with From's identity by To.
type Replacement struct{ From, To oscar.Member }

// ChangeResult is a federation after a change.
type ChangeResult struct {
	Replicas view.Replicas
	// Away lists the replicas that have not applied the change yet.
	Away []view.Replica
	// Replayed says that an earlier request with the same key had this outcome.
	Replayed bool
	// Removed are the members that the change removed.
	Removed []v1.DeletedReplica
}
