package v1

// Stats counts jobs: the answer of GET /system/stats.
type Stats struct {
	At       Time  `json:"at"`
	Revision int64 `json:"revision"`
	// Jobs counts all jobs by state.
	Jobs map[string]int `json:"jobs"`
	// Clusters counts them where they are, were, or wait; never nil. ClusterID is empty for those
	// at endpoints.
	Clusters []ClusterJobs `json:"clusters"`
	// Edges counts the jobs that were handed over; never nil. It names members of a federation
	// that was asked for, and clusters without one.
	Edges []JobEdge `json:"edges"`
	// Series is absent for one federation, and while there is none for the caller.
	Series *JobSeries `json:"series,omitempty"`
}

// ClusterJobs counts the jobs of one cluster by state.
type ClusterJobs struct {
	ClusterID string         `json:"cluster_id"`
	Jobs      map[string]int `json:"jobs"`
}

// JobEdge counts jobs that came in at From and were handed over to To.
type JobEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
	Jobs int    `json:"jobs"`
}

// JobSeries is what jobs did lately, in steps of the same length, the oldest first. All lists have
// the same length.
type JobSeries struct {
	StepSeconds int `json:"step_seconds"`
	// End is the end of the last step.
	End Time `json:"end"`
	// Queued and Running are how many there were at the end of each step. Running counts all that
	// are at a cluster or an endpoint.
	Queued  []int `json:"queued"`
	Running []int `json:"running"`
	// Started, Succeeded and Failed are how many came to that within the step. What ended otherwise
	// than with success has failed.
	Started   []int `json:"started"`
	Succeeded []int `json:"succeeded"`
	Failed    []int `json:"failed"`
	// WaitSeconds is the mean time from acceptance to start of those that were started; null
	// without any.
	WaitSeconds []*float64 `json:"wait_seconds"`
}
