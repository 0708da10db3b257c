package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

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
		for page, err := range answersOf[[]T](ctx, c, path, query) {
			if err != nil {
				yield(none, err)
				return
			}
			for _, one := range *page {
				if !yield(one, nil) {
					return
				}
			}
		}
	}
}

// answersOf gives the pages of a list as they are answered. It ends with the first error.
func answersOf[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for {
			out, err := c.do(ctx, call{method: http.MethodGet, path: path, query: query})
			if limit, _ := strconv.Atoi(query.Get("limit")); errors.Is(err, errTooLarge) && limit > 1 {
				query.Set("limit", strconv.Itoa(limit/2)) // entries are of very different sizes
				continue
			}
			if err != nil {
				yield(nil, err)
				return
			}
			page, err := decode[T](http.MethodGet, path, out.body)
			if !yield(page, err) || err != nil {
				return
			}
			next := out.header.Get(v1.ContinueHeader)
			if next == "" {
				return
			}
			query.Set("continue", next)
		}
	}
}

// maxLists is how often a list is begun again since its revision is gone.
const maxLists = 3

// all reads the pages of a list, up to so many entries, 0 for all, and begins again when its revision is gone meanwhile.
func all[T any](most int, list func() iter.Seq2[T, error]) (out []T, err error) {
	for range maxLists {
		if out, err = allPages(most, list()); !IsExpired(err) {
			break
		}
	}
	return out, err
}

func allPages[T any](most int, pages iter.Seq2[T, error]) ([]T, error) {
	out := []T{}
	for one, err := range pages {
		if err != nil {
			return nil, err
		}
		if out = append(out, one); len(out) == most {
			break
		}
	}
	return out, nil
}

// IsExpired says that the revision of a list, or the place of a watch, is gone: the caller begins anew.
func IsExpired(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code() == v1.CodeExpired
}
