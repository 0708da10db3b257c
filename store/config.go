package store

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/internal/pki"
)

// Config says where etcd is, and the time limits of calls to it.
type Config struct {
	// Endpoints are the members' client URLs, all of them: etcd's client spreads
	// its calls over them. With https:// the server's certificate is verified.
	Endpoints []string
	// CertFile and KeyFile are the client certificate. They are read anew for
	// each connection, so a renewed certificate needs no restart.
	CertFile, KeyFile string
	// Certificate, instead of files, is asked for the client certificate of each
	// connection.
	Certificate func() (*tls.Certificate, error)
	// CAFile holds the authorities that the servers' certificates are verified
	// with; the system's own when empty. It is read again when it changes.
	CAFile string
	// CA is the same as PEM, instead of a file.
	CA []byte

	// RequestTimeout bounds each single call; default 3 s.
	RequestTimeout time.Duration
	// Deadline bounds a whole read or Update with all its tries; default 15 s.
	Deadline time.Duration
	// KeepAlive is how long a connection may be silent before it is probed; default 12 s, which is longer than
	// the 10 s after which a session is renewed: then there are no probes. gRPC allows no less than 10 s.
	KeepAlive time.Duration

	// Now is the clock that the servers' certificates are held against; nil is time.Now.
	Now func() time.Time
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// OnDistrust, when set, is told why a connection failed in which one side does not trust the other's
	// certificate: of another authority, ended, for another name. It must not block.
	OnDistrust func(error)
	// DialOptions are added to those of each connection. Interceptors must be
	// given as chained ones: etcd's client has taken the others.
	DialOptions []grpc.DialOption
}

func (c Config) withDefaults() Config {
	c.RequestTimeout = positiveOr(c.RequestTimeout, 3*time.Second)
	c.Deadline = positiveOr(c.Deadline, 15*time.Second)
	c.KeepAlive = positiveOr(c.KeepAlive, 12*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.OnDistrust == nil {
		c.OnDistrust = func(error) {}
	}
	return c
}

// positiveOr is a duration that was given, or the fallback for one that was not.
func positiveOr(given, fallback time.Duration) time.Duration {
	if given > 0 {
		return given
	}
	return fallback
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var problems []error
	if len(c.Endpoints) == 0 {
		problems = append(problems, errors.New("no etcd endpoint is given"))
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		problems = append(problems, errors.New("the etcd client certificate and its key must be given together"))
	}
	if c.CertFile != "" && c.Certificate != nil {
		problems = append(problems, errors.New("the etcd client certificate comes from a file or from the program, not from both"))
	}
	if c.CAFile != "" && len(c.CA) > 0 {
		problems = append(problems, errors.New("etcd's CA comes from a file or from the program, not from both"))
	}
	return errors.Join(problems...)
}

// roots are the authorities that the servers' certificates are verified with.
func (c Config) roots() (out *pki.Roots, err error) {
	switch {
	case c.CAFile != "":
		out, err = pki.OpenRoots(c.CAFile, c.Logger)
	case len(c.CA) > 0:
		out, err = pki.NewRoots(c.CA)
	}
	if err != nil {
		return nil, fmt.Errorf("etcd's CA: %w", err)
	}
	return out, nil
}

// tlsConfig is nil when no file is given: etcd's client then uses TLS with the
// system's authorities for https:// endpoints, and none for http://. The authorities are
// not in it, since they can change.
func (c Config) tlsConfig() (*tls.Config, error) {
	if c.CertFile == "" && c.CAFile == "" && c.Certificate == nil && len(c.CA) == 0 {
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Time: c.Now}
	if c.Certificate != nil {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.Certificate() }
	}
	if c.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("etcd client certificate: %w", err)
			}
			return &cert, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return conf, nil
}
