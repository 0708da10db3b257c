package record

import "slices"

// A job is one event for a service of a federation. The record at jobs/<job> is the
// one authority about it: every assignment, withdrawal and end compares and writes it.
// What happens on a cluster between the two is in the report of that cluster's
// syncer. docs/jobs.md draws the states, and who moves a job from one to the next.
//
// An attempt has a number, and a name at OSCAR that contains it. At most one
// attempt of a job stands at any revision.
//
// A job that waits at a member too long is offered by its syncer, see Offer.
//
// After a restore of the store an attempt may stand that it knows nothing of. So in a
// new epoch a syncer first lists its Jobs, reports those of our names that no assignment
// asks for (JobReport.Found), and says in ObservedCluster.JobsEpoch that it has. It
// claims an assignment of the present epoch only: one of an older epoch, unclaimed, may
// have become something else in the history that was lost, and is taken back.

// JobState is how far a job, or one attempt of it, has come.
type JobState string

// The states. Stored in Job: JobQueued, JobAssigned, JobRunning and the ends. The
// syncer's reports have the rest, and these again.
const (
	// JobQueued: no attempt stands. NotBefore says when the next may be made.
	JobQueued JobState = "queued"
	// JobAssigned: an assignment stands, which may be claimed or further.
	JobAssigned JobState = "assigned"
	// JobClaimed: the syncer will submit it, and has not begun to.
	JobClaimed JobState = "claimed"
	// JobSubmitting: from here on OSCAR may have been asked.
	JobSubmitting JobState = "submitting"
	// JobSubmitted: OSCAR has a Job of this name.
	JobSubmitted JobState = "submitted"
	// JobRunning: its pod has started.
	JobRunning JobState = "running"
	// JobRefused: OSCAR has not made it, for certain, and why. Only a report has it:
	// the control plane queues the job again, or parks it.
	JobRefused JobState = "refused"
	// JobUncertain: whether OSCAR has made it is not known. Never started again by
	// itself. Job has it for an endpoint only.
	JobUncertain JobState = "uncertain"

	// The ends.

	JobSucceeded JobState = "succeeded"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
	// JobVanished: it was submitted, or may have been, and OSCAR does not know it any
	// more. It may have run.
	JobVanished JobState = "vanished"
	// JobParked: every attempt was refused for certain, or no member may take it any more.
	// A person may replay it.
	JobParked JobState = "parked"
	// JobReturned: an offered job that no other member took; it went on where it was.
	JobReturned JobState = "returned"
)

// Ended says whether s is an end.
func (s JobState) Ended() bool {
	switch s {
	case JobSucceeded, JobFailed, JobCancelled, JobVanished, JobParked, JobReturned:
		return true
	}
	return false
}

// Bound says whether a report with the state keeps the control plane from assigning the job to
// another cluster for as long as the session that wrote it lives, and, from JobSubmitting on, also
// afterwards.
func (s JobState) Bound() bool { return s != "" && s != JobRefused }

// Posted says whether OSCAR may have been asked.
func (s JobState) Posted() bool {
	switch s {
	case "", JobQueued, JobAssigned, JobClaimed, JobRefused:
		return false
	}
	return true
}

// Job is the authority about one job.
type Job struct {
	V   int    `json:"v"`
	Job string `json:"job" record:"id"`
	// Federation, and the replica that it came in at.
	Federation string `json:"federation"`
	GroupID    string `json:"group_id"`
	Owner      string `json:"owner"`
	Cluster    string `json:"cluster_id"`
	Service    string `json:"service_name"`
	// Offered says that it is a Job of the cluster that it came in at.
	Offered bool `json:"offered,omitempty"`
	// By is the subject who sent it; empty for the service's own token.
	By        string `json:"by,omitempty"`
	RequestID string `json:"request_id"`
	// Request is the hash of its idempotency record, when it has one.
	Request string `json:"request,omitempty"`
	// Size of the event in bytes.
	Size int `json:"size"`
	// BucketEvent says that the event is one of a bucket (oscar.BucketEvent): the job
	// reads the object that it names.
	BucketEvent bool     `json:"bucket_event,omitempty"`
	State       JobState `json:"state"`
	// Attempt is the number of the last one, 0 before the first. Place is where it
	// was, or is, to run.
	Attempt int    `json:"attempt"`
	Place   *Place `json:"place,omitempty"`
	// Reserved is what is promised to it in reserved/<Place.ClusterID>.
	Reserved *Room `json:"reserved,omitempty"`
	// Posted says that OSCAR may have been asked for the attempt, where its report may be
	// forgotten: a cluster that was revoked begins anew.
	Posted bool `json:"posted,omitempty"`
	// Posting is the delivery to an endpoint that is under way, or whose outcome is not
	// known.
	Posting *Posting `json:"posting,omitempty"`
	// Tries counts the attempts that were refused, or could not read their inputs, since it was
	// accepted or replayed.
	Tries int `json:"tries,omitempty"`
	// NotBefore ends the pause before the next attempt. The pause counts from ChangedAt, so both are
	// set together.
	NotBefore *Time `json:"not_before,omitempty"`
	// Visited are the clusters that offered it, oldest first; Hops counts how often it
	// was taken from a cluster's Jobs to another one.
	Visited []string `json:"visited,omitempty"`
	Hops    int      `json:"hops,omitempty"`
	// Frozen is where it stands frozen since FrozenAt, as its syncer offered it: that
	// Job is released when another place has it, or restored. Of our own attempts it
	// has the name; the assignment there is gone meanwhile.
	Frozen   *Place `json:"frozen,omitempty"`
	FrozenAt *Time  `json:"frozen_at,omitempty"`
	// Past are the last attempts that ended without an end of the job, oldest first.
	Past []Attempt `json:"past,omitempty"`
	// Cancel says that its end was ordered, and by which subject.
	Cancel string `json:"cancel,omitempty"`
	// Reason and Message say why it stands as it does.
	Reason     JobReason `json:"reason,omitempty"`
	Message    string    `json:"message,omitempty"`
	AcceptedAt Time      `json:"accepted_at"`
	ChangedAt  Time      `json:"changed_at"`
	// Pod is what the pod of the last attempt has told; nil for nothing.
	Pod *JobPod `json:"pod,omitempty"`
	// Kept says of a job that has failed that its event is kept, so that it can be replayed.
	Kept bool `json:"kept,omitempty"`
	// StartedAt and EndedAt are by OSCAR's clock, where it tells.
	StartedAt *Time `json:"started_at,omitempty"`
	EndedAt   *Time `json:"ended_at,omitempty"`
	// Epoch in which it was accepted, assigned or replayed last.
	Epoch string `json:"epoch,omitempty"`
}

// OfFound says whether the record was made for a Job that a cluster found after a restore: the event of the job was lost, and
// the request that it came with.
func (j *Job) OfFound() bool { return j.RequestID == j.Job && !j.Offered }

// RefusedAt lists the places that have refused the job since it was accepted or replayed, the last
// one first.
func (j *Job) RefusedAt() []string {
	var out []string
	left := j.Tries
	for i := len(j.Past) - 1; i >= 0 && left > 0; i-- {
		switch a := j.Past[i]; {
		case a.State == JobRefused:
			out = append(out, a.Place)
			left--
		case a.State == JobFailed && a.Reason == JobInputsUnreadable: // a try, and no refusal
			left--
		}
	}
	return out
}

// Clusters are the one that the job came in at, and those that it is or was at.
func (j *Job) Clusters() []string {
	out := []string{j.Cluster}
	add := func(cluster string) { // none for an endpoint
		if cluster != "" && !slices.Contains(out, cluster) {
			out = append(out, cluster)
		}
	}
	if j.Place != nil {
		add(j.Place.ClusterID)
	}
	for i := range j.Past {
		add(j.Past[i].ClusterID)
	}
	return out
}

// JobPod is what Kubernetes tells of a pod that waits for something, or ended badly.
type JobPod struct {
	// Reason is Kubernetes' word: ImagePullBackOff, OOMKilled. Message is its sentence.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// ExitCode of its container, when that has ended.
	ExitCode int32 `json:"exit_code,omitempty"`
}

// Room is what one pod takes: millicores, bytes, GPUs.
type Room struct {
	Millicores int64 `json:"cpu" record:"id"`
	Bytes      int64 `json:"memory_bytes" record:"id"`
	GPUs       int64 `json:"gpu" record:"id"`
}

// Posting is the delivery of an attempt to an endpoint by an instance of the control
// plane. From then on the endpoint may have been asked.
type Posting struct {
	// Instance is the one that delivers it, for as long as it lives.
	Instance string `json:"instance" record:"id"`
	At       Time   `json:"at" record:"id"`
}

// Place is where an attempt runs: a replica, or, with a URL, an endpoint.
type Place struct {
	ClusterID   string `json:"cluster_id" record:"id"`
	ServiceName string `json:"service_name" record:"id"`
	UID         string `json:"uid,omitempty" record:"id"`
	URL         string `json:"url,omitempty" record:"id"`
	// ClusterUID is the registration of the cluster: another one under its id is
	// another cluster.
	ClusterUID string `json:"cluster_uid,omitempty"`
	// Name of the Job at OSCAR.
	Name string `json:"name,omitempty"`
	// Takes is what the service requested of the cluster for a job when it was assigned; nil where that is not known.
	Takes *Room `json:"takes,omitempty"`
}

// Where is the place in words: cluster/service, or the url.
func (p *Place) Where() string {
	if p.URL != "" {
		return p.URL
	}
	return p.ClusterID + "/" + p.ServiceName
}

// Attempt is one that ended without an end of the job.
type Attempt struct {
	Attempt int `json:"attempt" record:"id"`
	// ClusterID and Place, which is cluster/service or the url of an endpoint.
	ClusterID string    `json:"cluster_id,omitempty"`
	Place     string    `json:"place" record:"id"`
	State     JobState  `json:"state"`
	Reason    JobReason `json:"reason,omitempty"`
	// Status is what OSCAR answered; 0 when it did not.
	Status  int     `json:"status,omitempty"`
	Message string  `json:"message,omitempty"`
	Pod     *JobPod `json:"pod,omitempty"`
	EndedAt Time    `json:"ended_at"`
}

// JobReason is a machine-readable cause of a job's state.
type JobReason string

// The reasons.
const (
	JobNoCandidate     JobReason = "NoCandidate"
	JobOscarRefused    JobReason = "OscarRefused"
	JobServiceGone     JobReason = "ServiceGone"
	JobClusterLost     JobReason = "ClusterLost"
	JobWithdrawn       JobReason = "Withdrawn"
	JobNoAnswer        JobReason = "NoAnswer"
	JobTooManyAttempts JobReason = "TooManyAttempts"
	JobFederationGone  JobReason = "FederationGone"
	JobResolved        JobReason = "Resolved"
	JobOtherEvent      JobReason = "OtherEvent"
	JobStoreRestored   JobReason = "StoreRestored"
	JobEventLost       JobReason = "EventLost"
	// JobEndpointRefused: an endpoint answered something else than 2xx, or could not be
	// reached.
	JobEndpointRefused JobReason = "EndpointRefused"
	// JobWaited: it waited at a member for too long, and was taken from there.
	JobWaited JobReason = "Waited"
	// JobNeedsUserToken: it is posted with an access token of its service's owner, and
	// there is none.
	JobNeedsUserToken JobReason = "NeedsUserToken"
	// JobPodWaits: its pod waits for something that has to change, as the pod tells.
	JobPodWaits JobReason = "PodWaits"
	// JobPodFailed: its pod has failed, as it tells.
	JobPodFailed JobReason = "PodFailed"
	// JobCannotStart: its pod could not start for too long. It was held before it had started,
	// its node knows, and its Job is deleted.
	JobCannotStart JobReason = "CannotStart"
	// JobInputsUnreadable: it failed before it can have read its inputs: see ofInputs in
	// syncer/jobs.
	JobInputsUnreadable JobReason = "InputsUnreadable"
)

// Event is the body of a job in an age envelope (base64): at events/<job> to the
// control plane (purpose seal.PurposeEvent, uid the job, generation 0), at
// desired/events/<job>.<attempt> to the cluster (cluster, uid the job, generation the
// attempt), at observed/events/<job> to the control plane by the syncer that offers it.
type Event struct {
	V      int    `json:"v"`
	Sealed string `json:"sealed"`
}

// Decision is what an assignment was decided on, and how: the snapshot and the
// choice of package delegation.
type Decision struct {
	V int `json:"v"`
	// At is when.
	At Time `json:"at"`
	// Gzip of the JSON, in base64.
	Gzip string `json:"gzip"`
}

// Reserved is what the control plane has promised of a cluster's capacity to jobs
// that are not seen running yet. Every assignment to the cluster compares and writes it.
type Reserved struct {
	V    int       `json:"v"`
	Jobs []Promise `json:"jobs"`
}

// Promise is the capacity of a number of equal pods.
type Promise struct {
	Room
	Count int64 `json:"count"`
}

// Assignment is one attempt as its syncer is asked to make it. The event stands
// beside it, see Event.
type Assignment struct {
	V       int    `json:"v"`
	Job     string `json:"job"`
	Attempt int    `json:"attempt"`
	// Federation, and service name and uid of the replica.
	Federation string `json:"federation"`
	Service    string `json:"service_name"`
	UID        string `json:"uid" record:"id"`
	RequestID  string `json:"request_id"`
	// Name that the Job is to have at OSCAR.
	Name       string `json:"name"`
	AssignedAt Time   `json:"assigned_at"`
	// Posted says that OSCAR may have been asked for it, although nothing is reported of it: the
	// reports of a cluster that was revoked are forgotten, and a Job that is given back stands.
	Posted bool `json:"posted,omitempty"`
	// Cancel orders the end of an attempt that was claimed.
	Cancel bool `json:"cancel,omitempty"`
	// Resolved is JobSubmitted when a person has decided that of an attempt that is
	// uncertain. When he decides that it has vanished the control plane ends the job.
	Resolved JobState `json:"resolved,omitempty"`
	// Epoch in which it was written; a syncer claims none of another epoch.
	Epoch string `json:"epoch,omitempty"`
}

// JobReport is what a syncer says of an attempt. It is written under its session and
// against the mod revision of the assignment.
type JobReport struct {
	V     int      `json:"v"`
	State JobState `json:"state"`
	// Revision is the mod revision of the assignment that it answers.
	Revision int64 `json:"revision"`
	// Session is the create revision of the session key in which it was claimed or,
	// from JobSubmitting on, posted first.
	Session int64 `json:"session"`
	// PostedAt is the last time at which OSCAR was, or may have been, asked.
	PostedAt  *Time     `json:"posted_at,omitempty"`
	StartedAt *Time     `json:"started_at,omitempty"`
	EndedAt   *Time     `json:"ended_at,omitempty"`
	Reason    JobReason `json:"reason,omitempty"`
	// Status is what OSCAR answered; 0 when it did not.
	Status             int     `json:"status,omitempty"`
	Message            string  `json:"message,omitempty"`
	Pod                *JobPod `json:"pod,omitempty"`
	LastTransitionTime Time    `json:"last_transition_time"`
	// Found says that no assignment of the present epoch asked for it: it stood among
	// OSCAR's Jobs after the store was restored. Service is where.
	Found   bool   `json:"found,omitempty"`
	Service string `json:"service_name,omitempty"`
	Epoch   string `json:"epoch,omitempty"`
}
