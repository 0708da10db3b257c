package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
)

// continueHeader has the token of the next page.
const continueHeader = "Oscarfed-Continue"

// defaultPage is how many entries are asked for at once.
const defaultPage = 500

// ListQuery says which entries of a list are wanted; what is empty matches all.
type ListQuery struct {
	// Limit is how many entries are asked for at once, 1000 at most; 0 is 500.
	Limit int
	// Label is a selector in the syntax of Kubernetes.
	Label string
	// Phases are those of federations and replicas, or the states of clusters.
	Phases []string
	// ClusterID is a cluster that an entry is on, and Owner is whose it is.
	ClusterID, Owner string
}

func (q ListQuery) values() url.Values {
	out := url.Values{}
	limit := q.Limit
	if limit == 0 {
		limit = defaultPage
	}
	out.Set("limit", strconv.Itoa(limit))
	set(out, "label", q.Label)
	set(out, "cluster_id", q.ClusterID)
	set(out, "owner", q.Owner)
	if len(q.Phases) > 0 {
		out["phase"] = q.Phases
	}
	return out
}

// pages gives the entries of a list, one page after the other, all as they were at one revision.
// It ends with the first error: one with the code expired says that the revision is gone, and the
// caller lists again.
func pages[T any](ctx context.Context, c *Client, path string, q ListQuery) iter.Seq2[T, error] {
	return pagesOf[T](ctx, c, path, q.values())
}

func pagesOf[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for {
			out, err := c.do(ctx, call{method: http.MethodGet, path: path, query: query})
			if err != nil {
				yield(none, err)
				return
			}
			page, err := decode[[]T](http.MethodGet, path, out.body)
			if err != nil {
				yield(none, err)
				return
			}
			for _, one := range *page {
				if !yield(one, nil) {
					return
				}
			}
			next := out.header.Get(continueHeader)
			if next == "" {
				return
			}
			query.Set("continue", next)
		}
	}
}
