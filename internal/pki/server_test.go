package pki

import (
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// clock is moved by hand.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func serial(t *testing.T, file string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.SerialNumber.String()
}

func TestAServersCertificateIsRenewedInTime(t *testing.T) {
	at := &clock{now: time.Now()}
	a, err := LoadOrCreate(t.TempDir(), "test", at.Now)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "server.pem")
	cfg := ServerConfig{File: file, Hosts: []string{"etcd.example.org", "127.0.0.1"}, Life: 90 * 24 * time.Hour, Logger: slog.New(slog.DiscardHandler)}
	ensured := func(cfg ServerConfig) *Server {
		t.Helper()
		s, err := a.Server(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := ensured(cfg)
	first := serial(t, file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	ensured(cfg)
	at.now = at.now.Add(59 * 24 * time.Hour)
	if err := s.ensure(); err != nil || serial(t, file) != first {
		t.Errorf("it was made anew after 59 days, %v", err)
	}
	at.now = at.now.Add(2 * 24 * time.Hour)
	if err := s.ensure(); err != nil || serial(t, file) == first {
		t.Errorf("it was not made anew after 61 days, %v", err)
	}
	second := serial(t, file)
	cfg.Hosts = []string{"etcd.example.org", "10.0.0.7"}
	ensured(cfg)
	third := serial(t, file)
	if third == second {
		t.Error("it was not made anew for another address")
	}
	for _, broken := range []string{"", "not a certificate"} {
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		ensured(cfg)
		serial(t, file)
	}
	other, err := LoadOrCreate(t.TempDir(), "another", at.Now)
	if err != nil {
		t.Fatal(err)
	}
	before := serial(t, file)
	if _, err := other.Server(cfg); err != nil || serial(t, file) == before {
		t.Errorf("the certificate of another authority was kept, %v", err)
	}
	if _, err := a.Server(ServerConfig{File: file}); err == nil {
		t.Error("a certificate for no host was made")
	}
}

// One address may be written in several ways, and twice.
func TestACertificateFitsHoweverAnAddressIsWritten(t *testing.T) {
	a, err := LoadOrCreate(t.TempDir(), "test", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, hosts := range [][]string{
		{"2001:DB8::1"}, {"2001:0db8::1"}, {"::ffff:10.0.0.7"}, {"2001:db8::1", "etcd.example.org", "2001:DB8::1"},
	} {
		file := filepath.Join(t.TempDir(), "server.pem")
		s, err := a.Server(ServerConfig{File: file, Hosts: hosts, Life: 90 * 24 * time.Hour, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		first := serial(t, file)
		if err := s.ensure(); err != nil || serial(t, file) != first {
			t.Errorf("it was made anew for %v, %v", hosts, err)
		}
	}
}

func TestAClientsCertificateIsRenewedInTime(t *testing.T) {
	at := &clock{now: time.Now()}
	a, err := LoadOrCreate(t.TempDir(), "test", at.Now)
	if err != nil {
		t.Fatal(err)
	}
	c := a.Client("somebody", 24*time.Hour)
	get := func() *tls.Certificate {
		t.Helper()
		cert, err := c.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	first := get()
	if first.Leaf.Subject.CommonName != "somebody" {
		t.Errorf("it speaks for %q", first.Leaf.Subject.CommonName)
	}
	at.now = at.now.Add(15 * time.Hour)
	if get() != first {
		t.Error("it was made anew after 15 hours")
	}
	at.now = at.now.Add(2 * time.Hour)
	if next := get(); next == first || !next.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Error("it was not made anew after 17 hours")
	}
	ahead := get()
	at.now = at.now.Add(-72 * time.Hour)
	if get() == ahead {
		t.Error("the clock was set back to before its start, and it was not made anew")
	}
	if c.renew != c.renew.Round(0) {
		t.Error("it goes by the monotonic clock, which stands still while a machine is suspended")
	}
}
