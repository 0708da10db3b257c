package v1

// JobsOfService is OSCAR's answer of GET /system/logs/{service}.
type JobsOfService struct {
	Jobs map[string]JobOfService `json:"jobs"`
	// NextPage is opaque; absent at the end.
	NextPage string `json:"next_page,omitempty"`
	// RemainingJobs is how many more there are at least.
	RemainingJobs *int64 `json:"remaining_jobs,omitempty"`
}

// JobOfService is one Job, as its cluster shows it.
type JobOfService struct {
	// Status is Pending, Running, Succeeded, Failed, Unknown or Suspended.
	Status       string `json:"status"`
	CreationTime string `json:"creation_time,omitempty"`
	StartTime    string `json:"start_time,omitempty"`
	FinishTime   string `json:"finish_time,omitempty"`
}
