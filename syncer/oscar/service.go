package oscar

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"time"
)

// Service is one service as OSCAR shows it: the fields that decide whose it is
// and what may be done to it, and the whole answer for comparing and hashing.
type Service struct {
	Name        string
	Token       string
	Owner       string
	Annotations map[string]string
	// Storage says that it names any input, output or mount: OSCAR's DELETE
	// would empty and delete those buckets.
	Storage bool
	// JSON is the service as it was answered.
	JSON json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Service) UnmarshalJSON(data []byte) error {
	var v struct {
		Name        string            `json:"name"`
		Token       string            `json:"token"`
		Owner       string            `json:"owner"`
		Annotations map[string]string `json:"annotations"`
		Input       []json.RawMessage `json:"input"`
		Output      []json.RawMessage `json:"output"`
		Mount       struct {
			Provider string `json:"storage_provider"`
			Path     string `json:"path"`
		} `json:"mount"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*s = Service{
		Name:        v.Name,
		Token:       v.Token,
		Owner:       v.Owner,
		Annotations: v.Annotations,
		Storage:     len(v.Input) > 0 || len(v.Output) > 0 || v.Mount.Provider != "" || v.Mount.Path != "",
		JSON:        append(json.RawMessage(nil), data...),
	}
	return nil
}

// List reads all services of the cluster with one call.
func (c *Client) List(ctx context.Context) ([]Service, error) {
	var out []Service
	err := c.read(ctx, call{op: OpList, path: []string{"system", "services"}, limit: maxListBody}, &out)
	return out, err
}

// Get reads one service. A half-created one is listed and yet not found here.
func (c *Client) Get(ctx context.Context, name string) (*Service, error) {
	var out Service
	if err := c.read(ctx, call{op: OpGet, subject: name, path: []string{"system", "services", name}}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Create posts a definition. OSCAR needs at least 6 s for it, and minutes when
// an image is fetched first: timeout is the caller's. The service is that of the
// bearer, or with an empty one the administrator's.
func (c *Client) Create(ctx context.Context, name string, body []byte, as Bearer, timeout time.Duration) error {
	_, err := c.do(ctx, call{op: OpCreate, subject: name, method: http.MethodPost,
		path: []string{"system", "services"}, body: body, as: as, timeout: timeout})
	return err
}

// Update puts a whole definition.
func (c *Client) Update(ctx context.Context, name string, body []byte, timeout time.Duration) error {
	_, err := c.do(ctx, call{op: OpUpdate, subject: name, method: http.MethodPut,
		path: []string{"system", "services"}, body: body, timeout: timeout})
	return err
}

// Delete deletes a service, its jobs, and every bucket that its input and
// output name, whoever made them: detach first.
func (c *Client) Delete(ctx context.Context, name string, timeout time.Duration) error {
	_, err := c.do(ctx, call{op: OpDelete, subject: name, method: http.MethodDelete,
		path: []string{"system", "services", name}, timeout: timeout})
	return err
}

// Job is one job of a service.
type Job struct {
	// Status is Pending, Running, Succeeded, Failed, Unknown or Suspended.
	Status string `json:"status"`
}

// Ended says that the job will not run any more.
func (j Job) Ended() bool { return j.Status == "Succeeded" || j.Status == "Failed" }

// maxJobPages bounds how far Jobs reads on; a page has 70 jobs.
const maxJobPages = 200

// Jobs lists the jobs of a service by name, following OSCAR's pages.
func (c *Client) Jobs(ctx context.Context, name string) (map[string]Job, error) {
	all := map[string]Job{}
	page := ""
	for range maxJobPages {
		var out struct {
			Jobs     map[string]Job `json:"jobs"`
			NextPage string         `json:"next_page"`
		}
		in := call{op: OpJobs, subject: name, path: []string{"system", "logs", name}, limit: maxListBody}
		if page != "" {
			in.query = map[string]string{"page": page}
		}
		if err := c.read(ctx, in, &out); err != nil {
			return nil, err
		}
		maps.Copy(all, out.Jobs)
		if out.NextPage == "" {
			return all, nil
		}
		page = out.NextPage
	}
	return nil, &APIError{Op: OpJobs, Service: name, Status: http.StatusOK, Err: errTooManyPages}
}
