package pki_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/internal/pki"
)

func authority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.LoadOrCreate(filepath.Join(t.TempDir(), "pki"), "test", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func parse(t *testing.T, certPEM []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(certPEM)
	if block == nil {
		t.Fatal("no PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestIssue(t *testing.T) {
	a, other := authority(t), authority(t)
	client, _, err := a.Issue(pki.Subject{Name: "cluster-a.0199c3a2", Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	server, _, err := a.Issue(pki.Subject{Hosts: []string{"etcd.example.org", "127.0.0.1"}, Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	verify := func(certPEM []byte, by *pki.Authority, host string, use x509.ExtKeyUsage) error {
		_, err := parse(t, certPEM).Verify(x509.VerifyOptions{Roots: by.Pool(), DNSName: host, KeyUsages: []x509.ExtKeyUsage{use}})
		return err
	}
	tests := []struct {
		name string
		err  error
		ok   bool
	}{
		{"a client as a client", verify(client, a, "", x509.ExtKeyUsageClientAuth), true},
		{"a client as a server", verify(client, a, "", x509.ExtKeyUsageServerAuth), false},
		{"a client of another authority", verify(client, other, "", x509.ExtKeyUsageClientAuth), false},
		{"a server by name", verify(server, a, "etcd.example.org", x509.ExtKeyUsageServerAuth), true},
		{"a server by address", verify(server, a, "127.0.0.1", x509.ExtKeyUsageServerAuth), true},
		{"a server under another name", verify(server, a, "api.example.org", x509.ExtKeyUsageServerAuth), false},
		{"a server as a client of its peers", verify(server, a, "", x509.ExtKeyUsageClientAuth), true},
	}
	for _, tt := range tests {
		if (tt.err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, tt.err)
		}
	}
	if name := parse(t, client).Subject.CommonName; name != "cluster-a.0199c3a2" {
		t.Errorf("the client is called %q", name)
	}
	if name := parse(t, server).Subject.CommonName; name != "" {
		t.Errorf("the server could be taken for the user %q", name)
	}
	if c := parse(t, client); c.IsCA || c.KeyUsage&x509.KeyUsageCertSign != 0 {
		t.Error("a client may sign others")
	}
}

// A certificate ends with its authority at the latest.
func TestLifeEndsWithTheAuthority(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if _, err := pki.LoadOrCreate(dir, "test", time.Now); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(pki.AuthorityLife - time.Hour)
	gone := later.Add(2 * time.Hour)
	now := later
	a, err := pki.LoadOrCreate(dir, "test", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	cert, _, err := a.Issue(pki.Subject{Name: "x", Life: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if end := parse(t, cert).NotAfter; end.After(parse(t, a.CertPEM()).NotAfter) {
		t.Errorf("it ends on %s", end)
	}
	now = gone
	if _, _, err := a.Issue(pki.Subject{Name: "x", Life: 24 * time.Hour}); err == nil {
		t.Error("an authority that has ended signs")
	}
	if _, err := pki.LoadOrCreate(dir, "test", func() time.Time { return gone }); err == nil {
		t.Error("an authority that has ended was loaded")
	}
}

func TestLoadOrCreateKeepsWhatIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	a, err := pki.LoadOrCreate(dir, "test", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	b, err := pki.LoadOrCreate(dir, "test", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.CertPEM(), b.CertPEM()) {
		t.Error("a second authority was made")
	}
	info, err := os.Stat(filepath.Join(dir, "ca.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info.Mode(), err)
	}
	// The power was lost before the certificate was written.
	if err := os.Remove(filepath.Join(dir, pki.AuthorityCertFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.LoadOrCreate(dir, "test", time.Now); err != nil {
		t.Errorf("a half-made authority: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Two processes start for the first time in one directory.
func TestTheAuthorityIsOneHoweverManyMakeIt(t *testing.T) {
	for range 20 {
		dir := filepath.Join(t.TempDir(), "pki")
		var made [4]*pki.Authority
		var group errgroup.Group
		for i := range made {
			group.Go(func() (err error) {
				made[i], err = pki.LoadOrCreate(dir, "test", time.Now)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, a := range made {
			if !bytes.Equal(a.CertPEM(), made[0].CertPEM()) {
				t.Fatal("two authorities were made")
			}
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	a := authority(t)
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert, key, err := a.Issue(pki.Subject{Name: "client", Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	_, otherKey, err := a.Issue(pki.Subject{Name: "client", Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := write("cert", cert), write("key", key)
	for name, files := range map[string][2]string{
		"a client's certificate": {certFile, keyFile},
		"another key":            {write("ca", a.CertPEM()), write("other", otherKey)},
		"no file":                {filepath.Join(dir, "none"), keyFile},
		"no PEM":                 {write("text", []byte("hello")), keyFile},
	} {
		if _, err := pki.Load(files[0], files[1], time.Now); err == nil {
			t.Errorf("%s was taken for an authority", name)
		}
	}
}
