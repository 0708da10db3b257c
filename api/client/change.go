package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// ChangeOptions go with a change of a service or of its members.
type ChangeOptions struct {
	// ClusterID says which service is meant when several have the name.
	ClusterID string
	// IfMatch is the revision that the federation must have; 0 demands none.
	IfMatch int64
	// Plan is the digest of the plan that a change of a definition must be; empty
	// demands none.
	Plan string
	// Wait is how long to wait until the change is applied everywhere; 0 means the
	// control plane's default.
	Wait time.Duration
	// Async waits for nothing but the votes of added members.
	Async bool
	// IdempotencyKey makes it safe to send the request again, here or later. Without one the
	// request is sent once: a caller that does not know the outcome reads, and decides anew.
	IdempotencyKey string
	// Data is delete when buckets of removed members shall go, Jobs cancel when
	// their running jobs shall be ended.
	Data, Jobs string
}

// Replacement turns the member with From's identity into To.
type Replacement struct{ From, To oscar.Member }

// replicasRequest is the body of a change of members.
type replicasRequest struct {
	Replicas []oscar.Member `json:"replicas,omitempty"`
	Update   []oscar.Member `json:"update,omitempty"`
}

// ChangeService replaces a definition on every cluster of its federation, and
// answers with the federation as its coordinator sees it.
func (c *Client) ChangeService(ctx context.Context, s *oscar.Service, opts ChangeOptions) (*v1.Replicas, error) {
	in := call{method: http.MethodPut, path: "/system/services", header: http.Header{"Prefer": {"return=representation"}}}
	return c.change(ctx, in, s.Submitted(), opts)
}

// AddReplicas adds members to a service's federation; those that are there
// already, and equal, stay as they are. Their clusters vote first.
func (c *Client) AddReplicas(ctx context.Context, service string, members []oscar.Member, opts ChangeOptions) (*v1.Replicas, error) {
	return c.change(ctx, replicasCall(http.MethodPost, service), replicasRequest{Replicas: members}, opts)
}

// ReplaceReplicas turns members into others, or changes their settings.
func (c *Client) ReplaceReplicas(ctx context.Context, service string, list []Replacement, opts ChangeOptions) (*v1.Replicas, error) {
	var body replicasRequest
	for _, r := range list {
		body.Replicas, body.Update = append(body.Replicas, r.From), append(body.Update, r.To)
	}
	return c.change(ctx, replicasCall(http.MethodPut, service), body, opts)
}

// RemoveReplicas removes members by their identity; a name that is no member is no error. An empty
// list removes no member: see RemoveAllReplicas.
func (c *Client) RemoveReplicas(ctx context.Context, service string, members []oscar.Member, opts ChangeOptions) (*v1.Replicas, error) {
	return c.change(ctx, replicasCall(http.MethodDelete, service), replicasRequest{Replicas: members}, opts)
}

// RemoveAllReplicas removes every member but the coordinator.
func (c *Client) RemoveAllReplicas(ctx context.Context, service string, opts ChangeOptions) (*v1.Replicas, error) {
	in := replicasCall(http.MethodDelete, service)
	in.query = url.Values{"all": {"true"}}
	return c.change(ctx, in, nil, opts)
}

// conditions are the headers that bind a change to a revision and to a key.
func (c call) conditions(ifMatch int64, key string) {
	if ifMatch != 0 {
		c.header.Set("If-Match", `"`+strconv.FormatInt(ifMatch, 10)+`"`)
	}
	if key != "" {
		c.header.Set(v1.IdempotencyHeader, key)
	}
}

func replicasCall(method, service string) call {
	return call{method: method, path: replicasPath(service)}
}

func replicasPath(service string) string { return "/system/replicas/" + url.PathEscape(service) }

// change sends a change and reads what became of the federation.
func (c *Client) change(ctx context.Context, in call, body any, opts ChangeOptions) (*v1.Replicas, error) {
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", in.method, in.path, err)
		}
		in.body = data
	}
	if in.query == nil {
		in.query = url.Values{}
	}
	if in.header == nil {
		in.header = http.Header{}
	}
	set(in.query, "cluster_id", opts.ClusterID)
	switch {
	case opts.Async:
		in.header.Add("Prefer", "respond-async")
	case opts.Wait > 0:
		in.wait = opts.Wait
		in.query.Set("wait", opts.Wait.String())
	}
	set(in.query, "data", opts.Data)
	set(in.query, "jobs", opts.Jobs)
	in.conditions(opts.IfMatch, opts.IdempotencyKey)
	if opts.Plan != "" {
		in.header.Set(v1.PlanHeader, opts.Plan)
	}
	out, err := c.do(ctx, in)
	if err != nil {
		return nil, err
	}
	return decode[v1.Replicas](in.method, in.path, out.body)
}
