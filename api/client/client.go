package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/internal/outbound"
)

// Defaults of Config.
const (
	// DefaultTimeout is longer than what the control plane allows itself, so that
	// its answer about its own deadline still arrives.
	DefaultTimeout = 45 * time.Second
	// DefaultHeadTimeout is longer than etcd takes to find another leader.
	DefaultHeadTimeout = 10 * time.Second
	DefaultTries       = 4
)

// defaultWait is how long the control plane waits for a creation's outcome when
// it is not told.
const defaultWait = 60 * time.Second

// Config says where the API is and who calls it.
type Config struct {
	// Endpoint is the base URL: http or https, without credentials.
	Endpoint string
	// User and Password are for basic authentication, Token for a bearer token.
	// Nothing is sent when all are empty.
	User, Password string
	Token          string
	// TokenOf gives the bearer token of each request, in place of Token. refused is the one that
	// the API has just refused, empty at first: a call that is refused is sent once more when
	// TokenOf has another one. Its error ends a watch, unless it has a method Temporary() bool that says true.
	TokenOf func(ctx context.Context, refused string) (string, error)
	// Transport sends requests; nil means outbound.Transport(nil).
	Transport http.RoundTripper
	UserAgent string
	// Timeout of one try, besides what the control plane is asked to wait; 0
	// means DefaultTimeout.
	Timeout time.Duration
	// HeadTimeout is how long the first try of a read, and of a job or a creation with a key that waits for no
	// outcome, waits for the head of the answer, before another connection is tried; each further try, but the
	// last, waits twice as long as the one before. 0 means DefaultHeadTimeout.
	HeadTimeout time.Duration
	// Tries at most for a request that may be sent again; 0 means DefaultTries.
	Tries int
}

// Client calls one control plane. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base string
	http *http.Client
	// onMissing is told which clusters have no part in an answer; it may be nil.
	onMissing func(why string)
}

// OnMissing calls do for each answer in which clusters have no part, with their names and why.
// It is set before the first request.
func (c *Client) OnMissing(do func(why string)) { c.onMissing = do }

// New makes a client; it sends nothing.
func New(cfg Config) (*Client, error) {
	u, err := url.Parse(cfg.Endpoint)
	switch {
	case err != nil:
		return nil, errors.New("the endpoint is no URL; use for example http://127.0.0.1:8080")
	case u.User != nil:
		return nil, errors.New("the endpoint has credentials in it; give user and password on their own")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("the endpoint %q is no http or https URL; use for example http://127.0.0.1:8080", cfg.Endpoint)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the endpoint %q has a query or a fragment; leave it out", cfg.Endpoint)
	case (cfg.Token != "" || cfg.TokenOf != nil) && (cfg.User != "" || cfg.Password != ""):
		return nil, errors.New("there are a token and a user; give one of them")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.HeadTimeout <= 0 {
		cfg.HeadTimeout = DefaultHeadTimeout
	}
	if cfg.Transport == nil {
		cfg.Transport = outbound.Transport(nil)
	}
	if cfg.Tries <= 0 {
		cfg.Tries = DefaultTries
	}
	return &Client{
		cfg:  cfg,
		base: strings.TrimRight(u.String(), "/"),
		http: &http.Client{
			Transport: cfg.Transport,
			// The API never redirects; following would send credentials elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// authorize adds the credentials. refused is the token that was refused before.
func (c *Client) authorize(r *http.Request, refused string) error {
	switch {
	case c.cfg.TokenOf != nil:
		token, err := c.cfg.TokenOf(r.Context(), refused)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", bearer+token)
	case c.cfg.Token != "":
		r.Header.Set("Authorization", bearer+c.cfg.Token)
	case c.cfg.User != "" || c.cfg.Password != "":
		r.SetBasicAuth(c.cfg.User, c.cfg.Password)
	}
	return nil
}

// bearer is the scheme of an access token.
const bearer = "Bearer "
