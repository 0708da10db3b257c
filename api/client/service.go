package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// CreateOptions go with a creation.
type CreateOptions struct {
	// Wait is how long the control plane waits for the outcome before it says
	// that it is unknown; 0 means its default, 60 s.
	Wait time.Duration
	// Async does not wait at all.
	Async bool
	// Deployment overrides the definition: transactional, best-effort or empty.
	Deployment string
	// IdempotencyKey makes it safe to send the request again, here or later.
	// Without one it is sent once, unless it is Repeatable.
	IdempotencyKey string
	// Repeatable sends a request without a key again when its answer was lost. The control plane
	// joins it to an equal one that is under way; after a success it answers already_exists.
	Repeatable bool
	// Plan is the digest of the plan that the creation must be; empty demands none.
	Plan string
}

// CreateResult is an accepted creation.
type CreateResult struct {
	// Replicas is the federation as its coordinator sees it.
	Replicas *v1.Replicas
	// Done says that the outcome is known; it is false only with Async.
	Done bool
	// Replayed says that an earlier request with the same key had this outcome.
	Replayed  bool
	Location  string
	RequestID string
}

// put adds to a call what is alike for one service and for several.
func (o CreateOptions) put(in *call) {
	switch {
	case o.Async:
		in.wait, in.brief = 0, true
		in.header.Add("Prefer", "respond-async")
	case o.Wait > 0:
		in.wait = o.Wait
		in.query.Set("wait", o.Wait.String())
	}
	if o.IdempotencyKey != "" {
		in.header.Set(v1.IdempotencyHeader, o.IdempotencyKey)
	}
	in.repeatable = o.Repeatable
}

// CreateService creates a service on every cluster of its federation.
func (c *Client) CreateService(ctx context.Context, s *oscar.Service, opts CreateOptions) (*CreateResult, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("service %q: %w", s.Name, err)
	}
	in := call{
		method: http.MethodPost, path: "/system/services", body: body,
		query: url.Values{}, header: http.Header{"Prefer": {"return=representation"}}, wait: defaultWait,
	}
	opts.put(&in)
	set(in.query, "deployment", opts.Deployment)
	if opts.Plan != "" {
		in.header.Set(v1.PlanHeader, opts.Plan)
	}
	out, err := c.do(ctx, in)
	if err != nil {
		return nil, err
	}
	view, err := decode[v1.Replicas](in.method, in.path, out.body)
	if err != nil {
		return nil, err
	}
	return &CreateResult{
		Replicas:  view,
		Done:      out.status != http.StatusAccepted,
		Replayed:  out.header.Get("Idempotent-Replayed") == "true",
		Location:  out.header.Get("Location"),
		RequestID: out.header.Get("X-Request-ID"),
	}, nil
}

// CreateServicesResult is an accepted creation of several services.
type CreateServicesResult struct {
	// Federations are in the order of the services.
	Federations []v1.Federation
	// Done and Replayed are as in CreateResult.
	Done, Replayed bool
	RequestID      string
}

// CreateServices creates several services, each on every cluster of its federation, or none of
// them anywhere. They are at most oscar.MaxBatch, with at most oscar.MaxReplicas replicas together. Of
// opts, Deployment and Plan are for one service and have no effect.
func (c *Client) CreateServices(ctx context.Context, services []*oscar.Service, opts CreateOptions) (*CreateServicesResult, error) {
	body, err := json.Marshal(map[string]any{"services": services})
	if err != nil {
		return nil, fmt.Errorf("services: %w", err)
	}
	in := call{method: http.MethodPost, path: "/system/federations", body: body, query: url.Values{}, header: http.Header{}, wait: defaultWait}
	opts.put(&in)
	out, err := c.do(ctx, in)
	if err != nil {
		return nil, err
	}
	list, err := decode[[]v1.Federation](in.method, in.path, out.body)
	if err != nil {
		return nil, err
	}
	return &CreateServicesResult{
		Federations: *list, Done: out.status != http.StatusAccepted,
		Replayed: out.header.Get("Idempotent-Replayed") == "true", RequestID: out.header.Get("X-Request-ID"),
	}, nil
}

// DeleteOptions go with a deletion.
type DeleteOptions struct {
	// ClusterID says which service is meant when several have the name.
	ClusterID string
	// Data is delete when the buckets that the creation made shall go.
	Data string
	// Jobs is cancel when running jobs shall be ended.
	Jobs string
	// IfMatch is the revision that the federation must have; 0 demands none.
	IfMatch int64
	// IdempotencyKey makes it safe to send the request again, here or later.
	IdempotencyKey string
	// Wait is how long to wait until every replica has acknowledged; 0 does not wait.
	Wait time.Duration
}

// DeleteResult is an order that is committed.
type DeleteResult struct {
	// Pending counts the replicas that have not acknowledged it yet.
	Pending int
	// Replicas tell what became of each, and of its buckets; nil when the server does not say.
	Replicas []v1.DeletedReplica
}

// DeleteService deletes a service on every cluster of its federation.
func (c *Client) DeleteService(ctx context.Context, name string, opts DeleteOptions) (*DeleteResult, error) {
	in := call{method: http.MethodDelete, path: "/system/services/" + url.PathEscape(name), query: url.Values{}, header: http.Header{"Prefer": {"return=representation"}}, wait: opts.Wait}
	in.conditions(opts.IfMatch, opts.IdempotencyKey)
	set(in.query, "cluster_id", opts.ClusterID)
	set(in.query, "data", opts.Data)
	set(in.query, "jobs", opts.Jobs)
	if opts.Wait > 0 {
		in.query.Set("wait", opts.Wait.String())
	}
	out, err := c.do(ctx, in)
	if err != nil {
		return nil, err
	}
	pending, err := strconv.Atoi(out.header.Get("Oscarfed-Pending"))
	if err != nil {
		return nil, fmt.Errorf("%s %s: the answer does not say how many replicas are pending", in.method, in.path)
	}
	result := &DeleteResult{Pending: pending}
	if out.status == http.StatusOK {
		told, err := decode[v1.Deletion](in.method, in.path, out.body)
		if err != nil {
			return nil, err
		}
		result.Replicas = told.Replicas
	}
	return result, nil
}

// Deleted lists the caller's replicas that were deleted in the last 90 days; groupID
// may be empty.
func (c *Client) Deleted(ctx context.Context, groupID string) ([]v1.DeletedReplica, error) {
	q := url.Values{}
	set(q, "group_id", groupID)
	out, err := get[[]v1.DeletedReplica](ctx, c, "/system/deleted", q)
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// ServicePages lists the services of a query page by page: see pages.
func (c *Client) ServicePages(ctx context.Context, q ListQuery) iter.Seq2[*oscar.Service, error] {
	return pages[*oscar.Service](ctx, c, "/system/services", q)
}

// Services lists every service that the caller may see.
func (c *Client) Services(ctx context.Context) ([]*oscar.Service, error) {
	return all(0, func() iter.Seq2[*oscar.Service, error] { return c.ServicePages(ctx, ListQuery{}) })
}

// Service reads one definition; clusterID may be empty.
func (c *Client) Service(ctx context.Context, name, clusterID string) (*oscar.Service, error) {
	return get[oscar.Service](ctx, c, "/system/services/"+url.PathEscape(name), onCluster(clusterID))
}

func onCluster(id string) url.Values {
	q := url.Values{}
	set(q, "cluster_id", id)
	return q
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}
