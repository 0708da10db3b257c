package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/internal/outbound"
)

// Config of a Relay. Zero durations mean their defaults.
type Config struct {
	// ControlPlane is the base URL of the API: https, or http on this machine.
	ControlPlane string
	// Roots are the authorities of the API's certificate.
	Roots outbound.RootPool
	// Dial connects to the API.
	Dial outbound.Dial
	// Limits of what is passed on.
	Limits Limits

	// Timeout of one request to the API: 30 s.
	Timeout time.Duration
	// FirstPause and LastPause bound the pauses after temporary errors: 1 s and 1 min.
	FirstPause, LastPause time.Duration
	// Look bounds the pause between two searches for an instance without a stream, while there
	// is a stream to another one: 1 min. The first pause is an eighth of it, and so are the first
	// 16 while an instance is known to be without one.
	Look time.Duration
	// Now is the clock by which the API's certificate is verified; nil is time.Now.
	Now      func() time.Time
	Logger   *slog.Logger
	Registry prometheus.Registerer
}

// maxStreams bounds the streams of a syncer.
const maxStreams = 16

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.Timeout, 30*time.Second)
	def(&c.FirstPause, time.Second)
	def(&c.LastPause, time.Minute)
	def(&c.Look, time.Minute)
	c.Limits = c.Limits.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// base checks the API's address: answers may be read only by the control plane.
func (c Config) base() (string, error) {
	u, err := url.Parse(c.ControlPlane)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("relay: the control plane's address is a URL such as https://federation.example.org:8080")
	case outbound.Private(u):
		return strings.TrimRight(c.ControlPlane, "/"), nil
	}
	return "", fmt.Errorf("relay: the control plane's address %s is not https", u.Redacted())
}

// tls is for a connection that is made now.
func (c Config) tls() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, Time: c.Now, RootCAs: c.Roots.Pool()}
}

// Site is the syncer that answers on the streams.
type Site interface {
	// Cluster and its registration.
	Cluster() (id, uid string)
	// OpenProof opens what the control plane has sealed to this cluster.
	OpenProof(sealed string) (string, error)
	// Ours is nil when a life of a service is on this cluster and ours. The error is
	// ErrNotOurs, or says why this is not known now.
	Ours(ctx context.Context, service, uid string) error
	// Invokes says whether a token is that of a life of a service. It sends no request.
	Invokes(service, uid, token string) bool
	// Vote says what the cluster would vote on a service, and writes nothing. The error's text,
	// without any secret, says why the cluster cannot tell.
	Vote(ctx context.Context, q Question) (Vote, error)
	// Send sends a request to the local OSCAR. The answer's body is streamed. The error is
	// ErrNotSent when OSCAR has received nothing.
	Send(ctx context.Context, req Outgoing) (*http.Response, error)
}

// Outgoing is a request to the local OSCAR.
type Outgoing struct {
	Method string
	// Path holds its segments, not escaped.
	Path   []string
	Query  url.Values
	Header http.Header
	// Body is nil for none, and Length -1 when it is not known.
	Body   io.Reader
	Length int64
	// Token is the service's own; empty for the cluster's credentials.
	Token string
}

// ErrNotSent says that OSCAR has received nothing of a request.
var ErrNotSent = errors.New("nothing was sent to OSCAR")

// ErrNotOurs says that no service of that name stands here as that life.
var ErrNotOurs = errors.New("no such service of the federation stands here")
