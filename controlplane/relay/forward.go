package relay

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Forwarded is a request to one of OSCAR's own paths.
type Forwarded struct {
	Route v1.ForwardRoute
	// Name fills the path, where it has one.
	Name  string
	Query url.Values
	Body  []byte
	// UserToken is the access token that OSCAR is asked with; empty for the cluster's own
	// credentials, which a syncer may refuse.
	UserToken string
}

// Forward asks the OSCAR of a cluster; of the replica only the cluster, its uid and the account
// count. The error is an *Error.
func (h *Hub) Forward(ctx context.Context, r Replica, in Forwarded) (*http.Response, error) {
	if in.Route.Named() && !v1.ForwardName(in.Name) {
		return nil, &Error{Text: "this can be no name of a bucket, a volume, a service or a user"}
	}
	path := v1.ForwardAsAdmin
	if in.UserToken != "" {
		path = v1.ForwardAsUser
	}
	u := url.URL{Scheme: "http", Host: "relay", Path: path + "/" + strings.Join(in.Route.Segments(in.Name), "/"), RawQuery: in.Route.Allowed(in.Query).Encode()}
	req, err := http.NewRequestWithContext(ctx, in.Route.Method, u.String(), http.NoBody)
	if err != nil {
		return nil, &Error{Text: "the request cannot be made", Err: err}
	}
	if in.UserToken != "" {
		req.Header.Set(v1.RelayUserTokenHeader, in.UserToken)
	}
	if in.Route.Body {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(in.Body)), int64(len(in.Body))
	}
	return h.ask(req, r)
}
