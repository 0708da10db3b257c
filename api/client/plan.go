package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// askWait is what the control plane may take to ask the clusters.
const askWait = 15 * time.Second

// PlanOptions go with a plan.
type PlanOptions struct {
	// Deployment overrides the definition of a creation, as in CreateOptions.
	Deployment string
	// Ask says that the clusters which will vote are asked what they would vote now.
	Ask bool
}

// Plan says what a definition would do if it was submitted now. It changes nothing.
func (c *Client) Plan(ctx context.Context, s *oscar.Service, opts PlanOptions) (*v1.Plan, error) {
	body, err := json.Marshal(s.Submitted())
	if err != nil {
		return nil, fmt.Errorf("service %q: %w", s.Name, err)
	}
	in := call{method: http.MethodPost, path: "/system/plans", body: body, query: url.Values{}, harmless: true}
	set(in.query, "deployment", opts.Deployment)
	if opts.Ask {
		in.query.Set("ask", "true")
		in.wait = askWait
	}
	out, err := c.do(ctx, in)
	if err != nil {
		return nil, err
	}
	return decode[v1.Plan](in.method, in.path, out.body)
}
