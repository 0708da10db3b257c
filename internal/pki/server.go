package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
)

// ServerConfig says which server a certificate is for.
type ServerConfig struct {
	// File takes the certificate and its key, for its owner alone. Both are in one file, so that a
	// reader never meets a key with the certificate of another.
	File string
	// Hosts are the DNS names and IP addresses that clients reach the server by.
	Hosts []string
	// Life of a certificate; it is made anew after two thirds.
	Life   time.Duration
	Logger *slog.Logger
}

// Server keeps a server's certificate in a file, and makes it anew in time.
type Server struct {
	authority *Authority
	cfg       ServerConfig
}

// Server makes the file, unless it holds a certificate of this authority for these
// hosts that has a third of its life before it.
func (a *Authority) Server(cfg ServerConfig) (*Server, error) {
	if len(cfg.Hosts) == 0 {
		return nil, errors.New("a server's certificate needs a host")
	}
	s := &Server{a, cfg}
	if err := s.ensure(); err != nil {
		return nil, fmt.Errorf("the server's certificate: %w", err)
	}
	return s, nil
}

// Run looks at the file once in an interval until ctx ends, and makes the certificate anew when it
// is time. A server that serves with it reads the file again.
func (s *Server) Run(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := s.ensure(); err != nil {
				s.cfg.Logger.Error("the server's certificate was not renewed; it is tried again", "file", s.cfg.File, "error", err)
			}
		}
	}
}

func (s *Server) ensure() error {
	if s.fits() {
		return nil
	}
	certPEM, keyPEM, err := s.authority.Issue(Subject{Hosts: s.cfg.Hosts, Life: s.cfg.Life})
	if err != nil {
		return err
	}
	if err := atomicfile.Write(s.cfg.File, append(certPEM, keyPEM...), 0o600); err != nil {
		return err
	}
	s.cfg.Logger.Info("a new certificate for the server is in use", "file", s.cfg.File, "hosts", s.cfg.Hosts)
	return nil
}

// fits says whether what is in the file can go on. What cannot be read is replaced:
// it was made here, and nothing but its place depends on it.
func (s *Server) fits() bool {
	if info, err := os.Stat(s.cfg.File); err != nil || info.Size() > MaxRequest {
		return false
	}
	pair, err := tls.LoadX509KeyPair(s.cfg.File, s.cfg.File)
	if err != nil {
		return false
	}
	now := s.authority.now()
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: s.authority.Pool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err == nil && sameHosts(pair.Leaf, s.cfg.Hosts) &&
		now.Before(pair.Leaf.NotAfter.Add(-Life(pair.Leaf)/3))
}

// sameHosts compares addresses as the certificate has them: one may be written in several ways.
func sameHosts(cert *x509.Certificate, hosts []string) bool {
	have := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		have = append(have, ip.String())
	}
	want := slices.Clone(hosts)
	for i, host := range want {
		if ip := net.ParseIP(host); ip != nil {
			want[i] = ip.String()
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	return slices.Equal(slices.Compact(have), slices.Compact(want))
}
