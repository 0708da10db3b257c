package controlplane

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/internal/outbound"
)

// direct invokes services at the registered addresses of their clusters. A service's token
// goes nowhere but to whom it is meant for: over TLS that is verified, or on this machine.
type direct struct{ client *http.Client }

func newDirect() direct {
	transport := outbound.Transport(nil)
	// The next member is not to wait for one that is away.
	transport.DialContext = (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	transport.TLSHandshakeTimeout, transport.MaxResponseHeaderBytes = 5*time.Second, 64<<10
	// What the function answers is its caller's to unpack.
	transport.DisableCompression = true
	return direct{&http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// close gives idle connections up.
func (d direct) close() { d.client.CloseIdleConnections() }

// reachable says whether a token may go to an address.
func reachable(t target) bool {
	u, err := url.Parse(t.endpoint)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" && t.sslVerify || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// run invokes a service; instead is why that is not done on a stream. Every error is a
// *relay.Error.
func (d direct) run(ctx context.Context, t target, in relay.Invocation, instead error) (*http.Response, error) {
	if !reachable(t) {
		return nil, instead
	}
	address, err := url.JoinPath(t.endpoint, "run", t.Service)
	if err != nil {
		return nil, instead
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, http.NoBody)
	if err != nil {
		return nil, &relay.Error{Text: "the request cannot be made", Err: err}
	}
	if in.Header != nil {
		req.Header = in.Header.Clone()
	}
	if in.Length != 0 {
		req.Body, req.ContentLength = io.NopCloser(in.Body), in.Length
	}
	req.Header.Set("Authorization", "Bearer "+in.Token)
	resp, err := d.client.Do(req)
	if err != nil {
		return nil, &relay.Error{
			Text: "its syncer has no stream to this instance, and its OSCAR cannot be reached from here", Sent: sent.Load(), Err: errors.Join(err, instead),
		}
	}
	return resp, nil
}
