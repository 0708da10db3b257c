package v1

// The kinds of what a SystemEvent is about.
const (
	AboutFederation = "federation"
	AboutReplica    = "replica"
	AboutCluster    = "cluster"
	AboutJob        = "job"
	AboutSystem     = "system"
)

// AboutKinds are all of them.
func AboutKinds() []string {
	return []string{AboutFederation, AboutReplica, AboutCluster, AboutJob, AboutSystem}
}

// The severities of a SystemEvent.
const (
	SeverityInfo    = "info"
	SeverityWarning = "warning"
)

// SystemEvent is one thing that happened: to what, where, when, why, and what to do about it.
type SystemEvent struct {
	// ID orders the events that one instance knows; its first part is the revision.
	ID       string `json:"id"`
	Revision int64  `json:"revision"`
	// At is when this instance saw it.
	At Time `json:"at"`
	// Kind is what it is about: federation, replica, cluster, job or system.
	Kind     string `json:"kind"`
	Severity string `json:"severity"`
	// Reason is one word for what happened, Cause the reason that was reported with it, and Message
	// both in a sentence.
	Reason  string `json:"reason"`
	Cause   string `json:"cause,omitempty"`
	Message string `json:"message"`
	// Hint is what a person can do about it; empty when there is nothing to do.
	Hint string `json:"hint,omitempty"`
	// Federation is a uid.
	Federation  string `json:"federation,omitempty"`
	GroupID     string `json:"group_id,omitempty"`
	Owner       string `json:"owner,omitempty"`
	ClusterID   string `json:"cluster_id,omitempty"`
	ServiceName string `json:"service_name,omitempty"`
	Job         string `json:"job,omitempty"`
}

// SystemEvents is one page of GET /system/events, the newest first.
type SystemEvents struct {
	Events []SystemEvent `json:"events"`
	// Since is when the instance that answers began to watch, or later when it had to forget
	// events: older ones are not known.
	Since Time `json:"since"`
	// Revision is the one up to which the events are told: a watch goes on behind it. Epoch is that
	// of the revision.
	Revision int64  `json:"revision"`
	Epoch    string `json:"epoch"`
}
