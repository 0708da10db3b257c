package runs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/share"
)

// direct invokes services at the registered addresses of their clusters. A service's token
// is sent over verified TLS or on this machine only.
//
// Each cluster is asked for so many at once as its syncer would let through, shared among
// tenants as there: see internal/share.
type direct struct {
	client *http.Client
	slots  *directSlots
}

// directSlots are those of each cluster that is asked now.
type directSlots struct {
	mu sync.Mutex
	of map[string]*directCluster
}

// directCluster is one cluster, as long as requests use it.
type directCluster struct {
	*share.Slots
	users int
}

// take takes a slot of a cluster; give returns it.
func (d *directSlots) take(ctx context.Context, t target) (give func(), err error) {
	d.mu.Lock()
	c := d.of[t.Cluster]
	if c == nil {
		c = &directCluster{Slots: share.New(v1.RelayRuns, v1.RelayWaiting)}
		d.of[t.Cluster] = c
	}
	c.users++
	d.mu.Unlock()
	leave := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if c.users--; c.users == 0 {
			delete(d.of, t.Cluster)
		}
	}
	back, err := c.Take(ctx, t.Tenant, t.Wait)
	if err != nil {
		leave()
		return nil, err
	}
	return sync.OnceFunc(func() { back(); leave() }), nil
}

func newDirect(dial outbound.Dial) direct {
	transport := outbound.Transport(nil)
	// The next member is not to wait for one that is away.
	transport.DialContext = dial.Within(3 * time.Second)
	transport.TLSHandshakeTimeout, transport.MaxResponseHeaderBytes = 5*time.Second, 64<<10
	// What the function answers is its caller's to unpack.
	transport.DisableCompression = true
	return direct{
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		slots: &directSlots{of: map[string]*directCluster{}},
	}
}

// close gives idle connections up.
func (d direct) close() { d.client.CloseIdleConnections() }

// reachable says whether a token may go to an address.
func reachable(t target) bool {
	u, err := url.Parse(t.endpoint)
	if err != nil {
		return false
	}
	return u.Scheme == "https" && t.sslVerify || outbound.Loopback(u.Hostname())
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
	give, err := d.slots.take(ctx, t)
	if err != nil {
		return nil, &relay.Error{Word: v1.RelayBusy, Text: "it is asked as much as it answers at a time", Err: err}
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, http.NoBody)
	if err != nil {
		give()
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
		give()
		return nil, &relay.Error{
			Text: "its syncer has no stream to this instance, and its OSCAR cannot be reached from here", Sent: sent.Load(), Err: errors.Join(err, instead),
		}
	}
	resp.Body = &ending{resp.Body, give}
	return resp, nil
}
