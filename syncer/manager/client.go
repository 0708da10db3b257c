package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/tracing"
)

// Limits of answers, in bytes. A list holds full services with their scripts.
const (
	maxListBody   = 64 << 20
	maxObjectBody = 8 << 20
	// maxRefusal is of an answer that is no success: its beginning says what is wrong.
	maxRefusal  = 64 << 10
	maxPassword = 4 << 10
)

// Config tells where the local OSCAR is and how to speak to it.
type Config struct {
	// Endpoint is its base URL, http or https.
	Endpoint string
	// User and PasswordFile are its basic credentials. The file is read at each
	// call, so that a rotated password needs no restart.
	User         string
	PasswordFile string
	// Roots are the authorities to trust. Certificates are always verified.
	Roots outbound.RootPool
	// ReadTimeout ends a call that changes nothing. Default 15 s.
	ReadTimeout time.Duration
	// Transport replaces the HTTP transport, for tests.
	Transport http.RoundTripper
}

// Client speaks to one OSCAR Manager. It is safe for concurrent use.
type Client struct {
	cfg   Config
	base  *url.URL
	http  *http.Client
	lists lists
}

// New checks cfg and makes a Client. It sends nothing.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.Endpoint)
	if err != nil {
		// The parser's error quotes what may hold a password.
		return nil, errors.New("the OSCAR endpoint is not a URL; use http://host or https://host")
	}
	if (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.User != nil {
		return nil, fmt.Errorf("OSCAR endpoint %q: use http://host or https://host without credentials", base.Redacted())
	}
	if cfg.ReadTimeout <= 0 {
		cfg.ReadTimeout = 15 * time.Second
	}
	transport := cfg.Transport
	if transport == nil {
		transport = outbound.Follow(outbound.Transport(nil), cfg.Roots)
	}
	return &Client{
		cfg:   cfg,
		base:  base,
		lists: lists{seed: maphash.MakeSeed()},
		http: &http.Client{
			Transport: tracing.Transport(transport),
			// A redirected write would be sent again as a GET: it is an error.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) authorize(req *http.Request, as Bearer) error {
	if as != "" {
		req.Header.Set("Authorization", "Bearer "+string(as))
		return nil
	}
	password, err := c.password()
	if err != nil {
		return errors.Join(ErrNoPassword, err)
	}
	req.SetBasicAuth(c.cfg.User, password)
	return nil
}

func (c *Client) password() (string, error) {
	if c.cfg.PasswordFile == "" {
		return "", nil
	}
	f, err := os.Open(c.cfg.PasswordFile)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	if len(data) > maxPassword {
		return "", fmt.Errorf("password file %q is longer than %d bytes", c.cfg.PasswordFile, maxPassword)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// hide takes what we authorize ourselves with out of a text.
func (c *Client) hide(text string, as Bearer) string {
	secret := string(as)
	if secret == "" && text != "" {
		secret, _ = c.password() // one that cannot be read was not sent
	}
	if secret == "" {
		return text
	}
	return strings.ReplaceAll(text, secret, "***")
}

// call describes one request.
type call struct {
	op      Op
	subject string
	method  string
	path    []string
	query   map[string]string
	body    []byte
	timeout time.Duration
	limit   int64
	// as is whose the call is; empty for the client's own user.
	as Bearer
	// header is sent besides our own.
	header map[string]string
	// success is the only status that is one; 0 for every 2xx.
	success int
}

// do sends one request and reads its whole answer. Every error is an *APIError.
func (c *Client) do(ctx context.Context, in call) ([]byte, error) {
	fail := func(status int, body []byte, err error) ([]byte, error) {
		return nil, &APIError{Op: in.op, Service: in.subject, Status: status, Body: Cut(c.hide(string(body), in.as), maxErrorBody), Err: err}
	}
	if in.timeout <= 0 {
		in.timeout = c.cfg.ReadTimeout
	}
	if in.limit <= 0 {
		in.limit = maxObjectBody
	}
	ctx, cancel := context.WithTimeoutCause(ctx, in.timeout,
		fmt.Errorf("no answer within %s: %w", in.timeout, context.DeadlineExceeded))
	defer cancel()

	for _, segment := range in.path {
		if segment == "" || segment == "." || segment == ".." {
			return fail(0, nil, fmt.Errorf("%w: %q is not a name", errNotSent, segment))
		}
	}
	req, err := http.NewRequestWithContext(ctx, in.method, c.address(in), bytes.NewReader(in.body))
	if err != nil {
		return fail(0, nil, errors.Join(errNotSent, err))
	}
	if err := c.authorize(req, in.as); err != nil {
		return fail(0, nil, errors.Join(errNotSent, err))
	}
	req.Header.Set("Accept", "application/json")
	if in.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range in.header {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		return fail(0, nil, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 || in.success != 0 && resp.StatusCode != in.success {
		// What follows the status, JSON or not, does not make it a success.
		data, _ := io.ReadAll(io.LimitReader(resp.Body, min(in.limit, maxRefusal))) // as much as there is
		return fail(resp.StatusCode, data, nil)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, in.limit+1))
	if err != nil {
		return fail(0, nil, fmt.Errorf("read the answer: %w", err))
	}
	if int64(len(data)) > in.limit {
		return fail(resp.StatusCode, nil, fmt.Errorf("the answer is larger than %d bytes", in.limit))
	}
	return data, nil
}

// address is the URL of a call. Names of services and buckets are escaped, so
// that none of them can lead to another path.
func (c *Client) address(in call) string {
	escaped := make([]string, len(in.path))
	for i, segment := range in.path {
		escaped[i] = url.PathEscape(segment)
	}
	u := c.base.JoinPath(escaped...)
	if len(in.query) > 0 {
		q := url.Values{}
		for k, v := range in.query {
			q.Set(k, v)
		}
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// read sends a GET and decodes its JSON answer.
func (c *Client) read(ctx context.Context, in call, into any) error {
	in.method = http.MethodGet
	data, err := c.do(ctx, in)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return unexpected(in, err)
	}
	return nil
}

// unexpected is the error of an answer that cannot be parsed.
func unexpected(in call, err error) error {
	return &APIError{Op: in.op, Service: in.subject, Status: http.StatusOK,
		Err: fmt.Errorf("the answer is not what OSCAR v4.1 sends: %w", err)}
}

// Cut shortens a text to at most limit bytes and makes it valid UTF-8. The rest of a longer text is not kept.
func Cut(text string, limit int) string {
	if len(text) > limit {
		text = strings.Clone(strings.ToValidUTF8(text[:limit], "")) // without a rune that was cut through
	}
	return strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
}
