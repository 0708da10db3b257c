package pki_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/pki"
)

// A renewed certificate is taken over; half of one, or nothing, is not.
func TestFilesReload(t *testing.T) {
	a := authority(t)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write := func(path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issue := func(name string) ([]byte, []byte) {
		t.Helper()
		cert, key, err := a.Issue(pki.Subject{Name: name, Hosts: []string{"localhost"}, Life: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	cert, key := issue("first")
	write(certFile, cert)
	write(keyFile, key)
	files, err := pki.OpenFiles(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); files.Watch(ctx, time.Millisecond) }()
	t.Cleanup(func() { cancel(); <-done })
	name := func() string {
		c, err := files.GetCertificate(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.Subject.CommonName
	}
	becomes := func(want string) {
		t.Helper()
		late := time.After(time.Minute)
		for name() != want {
			select {
			case <-late:
				t.Fatalf("it stays %q, not %q", name(), want)
			case <-time.After(time.Millisecond):
			}
		}
	}
	cert, key = issue("second")
	write(certFile, cert) // with the first's key
	for range 20 {
		<-time.After(time.Millisecond)
		if name() != "first" {
			t.Fatal("a certificate without its key is in use")
		}
	}
	write(keyFile, key)
	becomes("second")

	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		<-time.After(time.Millisecond)
		if name() != "second" {
			t.Fatal("nothing is in use")
		}
	}
	cert, key = issue("the third of them")
	write(keyFile, key)
	write(certFile, cert)
	becomes("the third of them")
}

func TestOpenFilesRefuses(t *testing.T) {
	if _, err := pki.OpenFiles("/nowhere/tls.crt", "/nowhere/tls.key", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no files were opened")
	}
}

// A control plane whose certificate was over started without a word, and its log had broken handshakes.
func TestACertificateThatIsOverIsTold(t *testing.T) {
	for want, life := range map[string]time.Duration{
		"":                           24 * time.Hour,
		"the certificate ends soon":  2*time.Hour + 10*time.Minute,
		"the certificate is over: n": time.Hour,
	} {
		past := func() time.Time { return time.Now().Add(-2 * time.Hour) }
		a, err := pki.LoadOrCreate(t.TempDir(), "test", past)
		if err != nil {
			t.Fatal(err)
		}
		cert, key, err := a.Issue(pki.Subject{Name: "api", Hosts: []string{"localhost"}, Life: life})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		if err := errors.Join(os.WriteFile(certFile, cert, 0o600), os.WriteFile(keyFile, key, 0o600)); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		if _, err := pki.OpenFiles(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		if said := log.String(); !strings.Contains(said, want) || want == "" && said != "" {
			t.Errorf("of one for %s, two hours ago: %q", life, said)
		}
	}
}
