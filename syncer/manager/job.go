package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Job is one job of a service.
type Job struct {
	// Status is Pending, Running, Succeeded, Failed, Unknown or Suspended.
	Status string
	// Started and Finished are by the cluster's clock, to the second; zero when OSCAR
	// does not tell.
	Started, Finished time.Time
}

// UnmarshalJSON implements json.Unmarshaler. A time that is none is left out: one odd
// job must not hide the others.
func (j *Job) UnmarshalJSON(data []byte) error {
	var v struct {
		Status   string `json:"status"`
		Created  string `json:"creation_time"` // when its pod was started
		Started  string `json:"start_time"`
		Finished string `json:"finish_time"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*j = Job{Status: v.Status, Started: stamp(v.Started), Finished: stamp(v.Finished)}
	if j.Started.IsZero() {
		j.Started = stamp(v.Created)
	}
	return nil
}

func stamp(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Ended says that the job will not run any more.
func (j Job) Ended() bool { return j.Status == "Succeeded" || j.Status == "Failed" }

// jobPageTimeout ends the read of one page, which has 70 jobs: OSCAR asks Kubernetes about
// each of them, and is let through five times a second.
const jobPageTimeout = 60 * time.Second

// JobPage is a part of the list of a service's jobs.
type JobPage struct {
	// Jobs by name.
	Jobs map[string]Job
	// Next is what the page after it is asked for by; empty for the last one.
	Next string
}

// Jobs reads one page of the list of the jobs of a service; the first has an empty name.
func (c *Client) Jobs(ctx context.Context, name, page string) (JobPage, error) {
	var out struct {
		Jobs     map[string]Job `json:"jobs"`
		NextPage string         `json:"next_page"`
	}
	in := call{op: OpJobs, subject: name, path: []string{"system", "logs", name}, limit: maxListBody, timeout: jobPageTimeout}
	if page != "" {
		in.query = map[string]string{"page": page}
	}
	if err := c.read(ctx, in, &out); err != nil {
		return JobPage{}, err
	}
	if out.Jobs == nil {
		// Some refusals are a 200 without the jobs.
		return JobPage{}, &APIError{Op: OpJobs, Service: name, Status: http.StatusOK, Err: errNoJobs}
	}
	return JobPage{Jobs: out.Jobs, Next: out.NextPage}, nil
}

// Submission is an event for a service.
type Submission struct {
	Service string
	// Token is that of the service, of 64 hex letters.
	Token Bearer
	// Name that the Job is to have; From is the cluster that it came from.
	Name, From string
	Event      []byte
}

// Submit makes a Job of an event. Only OSCAR's 201 is success.
func (c *Client) Submit(ctx context.Context, s Submission, timeout time.Duration) error {
	_, err := c.do(ctx, call{op: OpSubmit, subject: s.Service, method: http.MethodPost, path: []string{"job", s.Service},
		header: map[string]string{"X-Delegated-Job-ID": s.Name, "X-Delegated-From": s.From},
		body:   s.Event, as: s.Token, timeout: timeout, success: http.StatusCreated})
	return err
}

// DeleteJob deletes a Job and its pod.
func (c *Client) DeleteJob(ctx context.Context, service, name string, timeout time.Duration) error {
	_, err := c.do(ctx, call{op: OpDeleteJob, subject: service, method: http.MethodDelete,
		path: []string{"system", "logs", service, name}, timeout: timeout})
	return err
}

// JobExists says whether a submission failed for its name alone: OSCAR answers the
// same status for that as for whatever else Kubernetes refuses, and only its text
// differs.
func JobExists(err error, name string) bool {
	return StatusOf(err) == http.StatusInternalServerError && strings.Contains(bodyOf(err), fmt.Sprintf("jobs.batch %q already exists", name))
}
