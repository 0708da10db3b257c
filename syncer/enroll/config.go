package enroll

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/internal/outbound"
)

// Files in the directory.
const (
	keyFile   = "client.key"
	stateFile = "enrolment.json"
)

// Config of an enrolment. Zero durations mean their defaults.
type Config struct {
	ClusterID string
	// ControlPlane is the base URL of the API: https, or http on this machine.
	ControlPlane string
	// Roots are the authorities of the API's certificate.
	Roots outbound.RootPool
	// Dial connects to the API.
	Dial outbound.Dial
	// Dir holds the key and the last answer. It must exist.
	Dir string
	// TakeOver says that Dir may be of another cluster, whose place this one takes.
	TakeOver bool
	// KeyFile is the private key, if not client.key in Dir.
	KeyFile string
	// Token reads the join token; empty when there is none. It is called again when
	// another one is needed.
	Token func() (string, error)
	// Recipient is the age recipient of this syncer.
	Recipient string
	// KubeSystemUID identifies the Kubernetes below; an error means that it is not known now.
	// nil when there is none.
	KubeSystemUID func(ctx context.Context) (string, error)
	// OscarID identifies the OSCAR; an error means that it is not known now. nil when nothing
	// identifies it.
	OscarID func(ctx context.Context) (string, error)

	// Timeout of one request: 30 s.
	Timeout time.Duration
	// FirstPause and LastPause bound the pauses after temporary errors: 1 s and 5 min.
	FirstPause, LastPause time.Duration
	// RefusedPause is between two tries after a refusal, which only a person can end: 10 min.
	RefusedPause time.Duration
	// Look is the longest sleep: 1 min. So a machine that was suspended sees the clock soon.
	Look time.Duration
	// Now is the clock.
	Now      func() time.Time
	Logger   *slog.Logger
	Registry prometheus.Registerer
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Timeout, 30*time.Second)
	def(&c.FirstPause, time.Second)
	def(&c.LastPause, 5*time.Minute)
	def(&c.RefusedPause, 10*time.Minute)
	def(&c.Look, time.Minute)
	if c.KeyFile == "" {
		c.KeyFile = filepath.Join(c.Dir, keyFile)
	}
	if c.Token == nil {
		c.Token = func() (string, error) { return "", nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	return c
}

func (c Config) validate() error {
	if c.ClusterID == "" || c.Dir == "" || c.Recipient == "" {
		return errors.New("enroll: a cluster id, a directory and a recipient are needed")
	}
	return CheckURL(c.ControlPlane)
}

// CheckURL says whether a control plane can be joined at a URL: tokens and answers must not be
// readable on the way.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("the control plane's address is a URL such as https://federation.example.org:8080")
	case outbound.Private(u):
		return nil
	case u.Scheme == "http":
		return fmt.Errorf("the control plane's address %s is plain HTTP beyond this machine: everybody on the way could join in this cluster's place; use https", u.Redacted())
	}
	return fmt.Errorf("the control plane's address %s is not https", u.Redacted())
}
