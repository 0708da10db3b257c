package manager

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
)

// OpPass is a request that the syncer forwards for the control plane.
const OpPass Op = "pass"

// Pass is a request that is passed on as it came, and whose answer is streamed.
type Pass struct {
	Method string
	// Path holds its segments, not escaped.
	Path   []string
	Query  url.Values
	Header http.Header
	// Body is nil for none, and Length -1 when it is not known.
	Body   io.Reader
	Length int64
	// As is whose the request is; empty for the client's own user.
	As Bearer
}

// Pass sends a request and gives the answer, whatever its status, with its body still to
// be read. ctx bounds all of it. Every error is an *APIError.
func (c *Client) Pass(ctx context.Context, in Pass) (*http.Response, error) {
	fail := func(err error) (*http.Response, error) { return nil, &APIError{Op: OpPass, Err: err} }
	for _, segment := range in.Path {
		if segment == "" || segment == "." || segment == ".." {
			return fail(errNotSent)
		}
	}
	address := c.address(call{path: in.Path})
	if len(in.Query) > 0 {
		address += "?" + in.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, in.Method, address, in.Body)
	if err != nil {
		return fail(errors.Join(errNotSent, err))
	}
	if in.Header != nil {
		req.Header = in.Header.Clone()
	}
	if in.Body != nil {
		req.ContentLength = in.Length
	}
	if err := c.authorize(req, in.As); err != nil {
		return fail(errors.Join(errNotSent, err))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fail(err)
	}
	return resp, nil
}

// NotSent says that no byte of a request can have reached OSCAR.
func NotSent(err error) bool {
	api, ok := errors.AsType[*APIError](err)
	return ok && api.notSent()
}
