package manager

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Service is one service as OSCAR shows it: the fields that decide whose it is
// and what may be done to it, and the whole answer for comparing and hashing.
type Service struct {
	Name  string
	Token string
	Owner string
	// ClusterID is the cluster that it was made for, as its definition says.
	ClusterID   string
	Annotations map[string]string
	// Storage says that it names any input, output or mount: OSCAR's DELETE
	// would empty and delete those buckets.
	Storage bool
	// Exposed says that it names a port: OSCAR runs it as a Deployment.
	Exposed bool
	// Volume is the managed volume that it mounts; nil for none.
	Volume *ServiceVolume
	// JSON is the service as it was answered.
	JSON json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Service) UnmarshalJSON(data []byte) error {
	var v struct {
		Name        string            `json:"name"`
		Token       string            `json:"token"`
		Owner       string            `json:"owner"`
		ClusterID   string            `json:"cluster_id"`
		Annotations map[string]string `json:"annotations"`
		Input       []json.RawMessage `json:"input"`
		Output      []json.RawMessage `json:"output"`
		Mount       struct {
			Provider string `json:"storage_provider"`
			Path     string `json:"path"`
		} `json:"mount"`
		Volume *ServiceVolume `json:"volume"`
		Expose struct {
			Ports []int `json:"api_port"`
		} `json:"expose"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*s = Service{
		Name:        v.Name,
		Token:       v.Token,
		Owner:       v.Owner,
		ClusterID:   v.ClusterID,
		Annotations: v.Annotations,
		Storage:     len(v.Input) > 0 || len(v.Output) > 0 || v.Mount.Provider != "" || v.Mount.Path != "",
		Volume:      v.Volume,
		Exposed:     len(v.Expose.Ports) > 0 && v.Expose.Ports[0] != 0,
		JSON:        append(json.RawMessage(nil), data...),
	}
	return nil
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

// Update puts a whole definition, as the bearer, or with an empty one as the administrator.
func (c *Client) Update(ctx context.Context, name string, body []byte, as Bearer, timeout time.Duration) error {
	_, err := c.do(ctx, call{op: OpUpdate, subject: name, method: http.MethodPut,
		path: []string{"system", "services"}, body: body, as: as, timeout: timeout})
	return err
}

// Deployment reads the state of the instances of an exposed service: stopped, unavailable when it
// has no Deployment, or another one.
func (c *Client) Deployment(ctx context.Context, name string) (state string, err error) {
	var out struct {
		State string `json:"state"`
	}
	err = c.read(ctx, call{op: OpDeployment, subject: name, path: []string{"system", "services", name, "deployment"}}, &out)
	return out.State, err
}

// Stop scales an exposed service to no instances. A PUT of a stopped service fails.
func (c *Client) Stop(ctx context.Context, name string, timeout time.Duration) error {
	_, err := c.do(ctx, call{op: OpStop, subject: name, method: http.MethodPost,
		path: []string{"system", "services", name, "stop"}, timeout: timeout})
	return err
}

// Start starts an exposed service that was stopped.
func (c *Client) Start(ctx context.Context, name string, timeout time.Duration) error {
	_, err := c.do(ctx, call{op: OpStart, subject: name, method: http.MethodPost,
		path: []string{"system", "services", name, "start"}, timeout: timeout})
	return err
}

// Delete deletes a service, its jobs, and every bucket that its input and
// output name, also those that it did not make: detach first.
func (c *Client) Delete(ctx context.Context, name string, timeout time.Duration) error {
	_, err := c.do(ctx, call{op: OpDelete, subject: name, method: http.MethodDelete,
		path: []string{"system", "services", name}, timeout: timeout})
	return err
}
