package origin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/version"
)

// Config of a Client. Zero durations mean their defaults.
type Config struct {
	// ControlPlane is the base URL of the API. The client asks it when an OSCAR cannot be
	// reached; empty for none.
	ControlPlane string
	// Roots are the authorities of the API's certificate.
	Roots outbound.RootPool
	// Timeout of one request for keys: 7 s, so that two are over before an OSCAR, which
	// waits 20 s for them, gives up.
	Timeout time.Duration
	// Dial connects to OSCARs, MinIOs and the control plane.
	Dial outbound.Dial
}

// liveTimeout is how long a MinIO may take to say that it is there.
const liveTimeout = 5 * time.Second

// Limits of an answer in bytes.
const (
	maxAnswer = 1 << 20
	maxHead   = 64 << 10
)

// Client asks for keys of an origin's MinIO. It is safe for concurrent use.
type Client struct {
	cfg Config
	// strict verifies certificates, lax does not, and api knows the control plane's
	// authorities. strictLive and laxLive are for MinIOs, which jobs reach without the
	// syncer's proxy.
	strict, lax, api, strictLive, laxLive *http.Client
}

// New checks cfg. It sends nothing.
func New(cfg Config) (*Client, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 7 * time.Second
	}
	if cfg.ControlPlane != "" && !private(cfg.ControlPlane) {
		return nil, errors.New("origin: the control plane's address is not https")
	}
	strict := &tls.Config{MinVersion: tls.VersionTLS12}
	lax := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true} //nolint:gosec // what the registration of a cluster, or its OSCAR, says
	proxy := http.ProxyFromEnvironment
	return &Client{
		cfg: cfg, strict: caller(cfg.Dial, strict, proxy, nil), lax: caller(cfg.Dial, lax, proxy, nil), api: caller(cfg.Dial, strict.Clone(), proxy, cfg.Roots),
		strictLive: caller(cfg.Dial, strict.Clone(), nil, nil), laxLive: caller(cfg.Dial, lax.Clone(), nil, nil),
	}, nil
}

func caller(dial outbound.Dial, conf *tls.Config, proxy func(*http.Request) (*url.URL, error), roots outbound.RootPool) *http.Client {
	transport := outbound.Transport(conf)
	transport.Proxy, transport.MaxResponseHeaderBytes = proxy, maxHead
	// An OSCAR waits for the answer, and the control plane may still be asked.
	transport.DialContext = dial.Within(4 * time.Second)
	transport.TLSHandshakeTimeout = 4 * time.Second
	return &http.Client{
		Transport: outbound.Follow(transport, roots),
		// A redirect would send the token to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close closes idle connections.
func (c *Client) Close() {
	for _, h := range []*http.Client{c.strict, c.lax, c.api, c.strictLive, c.laxLive} {
		h.CloseIdleConnections()
	}
}

// Keys asks the origin's OSCAR for an owner's keys and, when that gives none that can be used
// from here, the control plane. Every error is an *Error.
func (c *Client) Keys(ctx context.Context, a Ask) (Keys, error) {
	if a.Owner == "" || a.Token == "" {
		return Keys{}, &Error{Kind: Refused, Message: "without an access token of the owner nobody is asked for his keys"}
	}
	keys, err := c.direct(ctx, a)
	if err == nil || c.cfg.ControlPlane == "" || ctx.Err() != nil {
		return keys, err
	}
	keys, other := c.relayed(ctx, a)
	if other == nil {
		return keys, nil
	}
	// An answer tells more than that the OSCAR could not be reached.
	said, _ := errors.AsType[*Error](err)
	then, _ := errors.AsType[*Error](other)
	if said != nil && then != nil && said.Kind == Unreachable {
		said = then
	}
	return Keys{}, &Error{Kind: said.Kind, Message: said.Message, Err: errors.Join(err, other)}
}

// direct asks the OSCAR at its registered address.
func (c *Client) direct(ctx context.Context, a Ask) (Keys, error) {
	unreachable := func(err error) (Keys, error) {
		return Keys{}, &Error{Kind: Unreachable, Message: fmt.Sprintf("the OSCAR of cluster %s cannot be asked for the owner's keys from here", a.Cluster), Err: err}
	}
	if !private(a.Endpoint) {
		return unreachable(errors.New("its address is not https: an access token is not sent there"))
	}
	client := c.strict
	if !a.SSLVerify {
		client = c.lax
	}
	address, err := url.JoinPath(a.Endpoint, "system", "config")
	if err != nil {
		return unreachable(err)
	}
	status, body, err := c.get(ctx, client, address, a.Token)
	if err != nil {
		return unreachable(err)
	}
	switch status {
	case http.StatusOK:
		return accept(body, a)
	case http.StatusUnauthorized, http.StatusForbidden:
		return Keys{}, &Error{Kind: Refused, Message: fmt.Sprintf("the OSCAR of cluster %s does not let the owner in", a.Cluster)}
	}
	return unreachable(fmt.Errorf("it answered %d", status))
}

// relayed asks the control plane, which asks the other cluster's syncer.
func (c *Client) relayed(ctx context.Context, a Ask) (Keys, error) {
	address := strings.TrimRight(c.cfg.ControlPlane, "/") + "/system/config?" + url.Values{"cluster_id": {a.Cluster}}.Encode()
	status, body, err := c.get(ctx, c.api, address, a.Token)
	if err == nil && status == http.StatusOK {
		return accept(body, a)
	}
	if err == nil {
		err = fmt.Errorf("the control plane answered %d", status)
	}
	if status == http.StatusForbidden {
		return Keys{}, &Error{Kind: Refused, Message: fmt.Sprintf("the OSCAR of cluster %s does not let the owner in", a.Cluster), Err: err}
	}
	return Keys{}, &Error{Kind: Unreachable, Err: err,
		Message: fmt.Sprintf("the OSCAR of cluster %s cannot be asked for the owner's keys, neither from here nor through the control plane", a.Cluster)}
}

// get reads one answer. It never gives an error with a status.
func (c *Client) get(ctx context.Context, client *http.Client, address, token string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	req.Header = http.Header{"Authorization": {"Bearer " + token}, "Accept": {"application/json"}, "User-Agent": {version.UserAgent("oscar-syncer")}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("read the answer: %w", err)
	case len(body) > maxAnswer:
		return 0, nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	return resp.StatusCode, body, nil
}

// Alive says, with a nil error, that a MinIO answers from here: it takes a connection,
// and its certificate is accepted or need not be. What it answers does not matter. Every
// error is an *Error.
func (c *Client) Alive(ctx context.Context, endpoint string, verify bool) error {
	dead := func(err error) error {
		return &Error{Kind: Unreachable, Message: fmt.Sprintf("the MinIO at %s does not answer from here", shown(endpoint)), Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	client := c.strictLive
	if !verify {
		client = c.laxLive
	}
	address, err := url.JoinPath(endpoint, "minio", "health", "live")
	if err != nil {
		return dead(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return dead(err)
	}
	req.Header.Set("User-Agent", version.UserAgent("oscar-syncer"))
	resp, err := client.Do(req)
	if err != nil {
		return dead(err)
	}
	return resp.Body.Close()
}

// private says whether a token may go to an address: over TLS, or on this machine.
func private(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	return outbound.Private(u)
}

// shown is an endpoint without its secrets, as messages show it.
func shown(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "an address that is none"
	}
	return u.Redacted()
}
