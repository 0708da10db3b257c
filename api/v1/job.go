package v1

import "encoding/json"

// The states of a job: see docs/jobs.md. Queued to running are on the way, uncertain
// waits for its cluster or a person, the rest are ends.
const (
	JobQueued     = "queued"
	JobAssigned   = "assigned"
	JobClaimed    = "claimed"
	JobSubmitting = "submitting"
	JobSubmitted  = "submitted"
	JobRunning    = "running"
	JobUncertain  = "uncertain"
	JobSucceeded  = "succeeded"
	JobFailed     = "failed"
	JobCancelled  = "cancelled"
	JobVanished   = "vanished"
	JobParked     = "parked"
	JobReturned   = "returned"
)

// JobStates lists all states, as a job passes through them.
func JobStates() []string {
	return []string{
		JobQueued, JobAssigned, JobClaimed, JobSubmitting, JobSubmitted, JobRunning, JobUncertain,
		JobSucceeded, JobFailed, JobCancelled, JobVanished, JobParked, JobReturned,
	}
}

// JobEnded says whether a state is an end. A job that is parked may be replayed.
func JobEnded(state string) bool {
	switch state {
	case JobSucceeded, JobFailed, JobCancelled, JobVanished, JobParked, JobReturned:
		return true
	}
	return false
}

// Job is one event for a service of a federation: the answer of GET
// /system/jobs/{id}, an element of GET /system/jobs, and the data of the events of
// both with ?watch=true.
type Job struct {
	ID string `json:"id"`
	// Federation is its uid.
	Federation string `json:"federation"`
	GroupID    string `json:"group_id"`
	Owner      string `json:"owner"`
	// ClusterID and ServiceName are the replica that the job came in at.
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
	// By is the subject who sent it; empty for the service's own token, when it was a Job of a
	// cluster before, and for a caller who is neither the sender nor the owner.
	By string `json:"by"`
	// Offered says that it was a Job of its cluster before it was ours.
	Offered bool `json:"offered,omitempty"`
	// Size of its event in bytes.
	Size  int    `json:"size"`
	State string `json:"state"`
	// Reason and Message say why it stands as it does.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Hint is what a person can do about it; empty when it passes by itself.
	Hint string `json:"hint,omitempty"`
	// Pod is what the pod of the last attempt has told.
	Pod *JobPod `json:"pod,omitempty"`
	// Attempt is the number of the last one; 0 before the first.
	Attempt int `json:"attempt"`
	// Place is where that one is to run, or has run.
	Place *JobPlace `json:"place,omitempty"`
	// Attempts are the last ones that ended without an end of the job, oldest first.
	Attempts []JobAttempt `json:"attempts"`
	// NotBefore is when the next attempt may be made.
	NotBefore *Time `json:"not_before,omitempty"`
	// Unreachable says that its cluster is away: the state is the last that was reported.
	Unreachable bool `json:"unreachable,omitempty"`
	// Held says that it waits since a restore of the store, until every member has said
	// whether it has it.
	Held bool `json:"held,omitempty"`
	// Cancelled says that its end was ordered.
	Cancelled bool `json:"cancelled,omitempty"`
	// CancelledBy is the subject who ordered it, shown to the callers to whom By is shown.
	CancelledBy string `json:"cancelled_by,omitempty"`
	// Revision of its record.
	Revision   int64  `json:"revision"`
	RequestID  string `json:"request_id"`
	AcceptedAt Time   `json:"accepted_at"`
	ChangedAt  Time   `json:"changed_at"`
	// SubmittedAt is when OSCAR was, or may have been, asked last. StartedAt and EndedAt
	// are by OSCAR's clock, where it tells.
	SubmittedAt *Time `json:"submitted_at,omitempty"`
	StartedAt   *Time `json:"started_at,omitempty"`
	EndedAt     *Time `json:"ended_at,omitempty"`
}

// JobPod is what Kubernetes tells of a pod that waits for something, or ended badly.
type JobPod struct {
	// Reason is Kubernetes' word, and Message its sentence.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// ExitCode of the container, when that has ended.
	ExitCode int32 `json:"exit_code,omitempty"`
}

// JobPlace is where an attempt runs.
type JobPlace struct {
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
	// URL of an endpoint, which has no cluster.
	URL string `json:"url,omitempty"`
	// JobName is what the attempt is called at OSCAR.
	JobName string `json:"job_name,omitempty"`
}

// JobAttempt is one that ended without an end of the job.
type JobAttempt struct {
	Attempt int `json:"attempt"`
	// Place is cluster/service, or the URL of an endpoint.
	Place string `json:"place"`
	// State is refused when OSCAR did not make it; what a withdrawn attempt had come
	// to otherwise.
	State  string `json:"state"`
	Reason string `json:"reason"`
	// Status is what OSCAR answered; absent when it did not.
	Status  int    `json:"status,omitempty"`
	Message string `json:"message"`
	// Pod is what its pod has told.
	Pod     *JobPod `json:"pod,omitempty"`
	EndedAt Time    `json:"ended_at"`
}

// Jobs is one page of GET /system/jobs, the newest first.
type Jobs struct {
	Jobs []Job `json:"jobs"`
	// Next is the cursor of the page after it; absent on the last one.
	Next string `json:"next,omitempty"`
	// Counts has all jobs of the query by state, those of other pages too; only with
	// ?counts=true.
	Counts map[string]int `json:"counts,omitempty"`
}

// JobExplanation is why a job went where it went: the answer of GET
// /system/jobs/{id}/explain.
type JobExplanation struct {
	Job Job `json:"job"`
	// Decisions, the newest first; those of old attempts are not kept for ever.
	Decisions []JobDecision `json:"decisions"`
}

// JobDecision is one choice of a place.
type JobDecision struct {
	// Attempt that it was made for.
	Attempt int  `json:"attempt"`
	At      Time `json:"at"`
	// Now says that it was not made: it is what would be chosen at this moment for a
	// job that is queued.
	Now bool `json:"now,omitempty"`
	// Policy that was followed.
	Policy string `json:"policy"`
	// Chosen is the place that was taken: cluster/service, or the URL of an endpoint; empty when
	// no member could take it.
	Chosen string `json:"chosen"`
	// Order lists the places that could have taken it, best first.
	Order []string `json:"order"`
	// Members has a verdict for each member of the federation.
	Members []JobVerdict `json:"members"`
	// Snapshot is what was looked at: the same choice over it gives the same decision.
	Snapshot json.RawMessage `json:"snapshot"`
}

// JobVerdict says why one member was taken or not.
type JobVerdict struct {
	Place string `json:"place"`
	// Why is one word, Message the same in a sentence.
	Why     string `json:"why"`
	Message string `json:"message"`
	// Score by which the policy put it in order; absent when it was not compared.
	Score *float64 `json:"score,omitempty"`
}

// JobResolution is what a person found out about an uncertain job: the body of POST
// /system/jobs/{id}/resolve.
type JobResolution struct {
	// State is submitted or vanished.
	State string `json:"state"`
}
