package outbound_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/pki"
)

// A client that runs learns of another authority. It never believes a server that the roots of the moment do not
// vouch for, by this name and today.
func TestServersAreVerifiedWithTheRootsOfTheMoment(t *testing.T) {
	past := func() time.Time { return time.Now().Add(-48 * time.Hour) }
	newAuthority := func(now func() time.Time) *pki.Authority {
		a, err := pki.LoadOrCreate(t.TempDir(), "test", now)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	one, two, old := newAuthority(time.Now), newAuthority(time.Now), newAuthority(past)
	var present atomic.Pointer[tls.Certificate]
	serve := func(a *pki.Authority, host string) {
		t.Helper()
		cert, key, err := a.Issue(pki.Subject{Hosts: []string{host}, Life: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		present.Store(&pair)
	}
	const here = "127.0.0.1"
	serve(one, here)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*present.Load()}, NextProtos: []string{"h2"}}, nil
	}}
	server.StartTLS()
	t.Cleanup(server.Close)

	pools := map[string]*x509.CertPool{"one": one.Pool(), "old": old.Pool(), "both": one.Pool()}
	pools["both"].AppendCertsFromPEM(two.CertPEM())
	roots := pools["one"]
	client := &http.Client{Transport: outbound.Follow(outbound.Transport(nil), func() *x509.CertPool { return roots })}
	t.Cleanup(client.CloseIdleConnections)
	ask := func() error {
		server.CloseClientConnections()
		client.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	for _, step := range []struct {
		name, roots string
		by          *pki.Authority
		host        string
		trusted     bool
	}{
		{"the first authority", "one", one, here, true},
		{"of an authority that is not there yet", "one", two, here, false},
		{"of one of two", "both", two, here, true},
		{"of the other of them", "both", one, here, true},
		{"of another server", "both", two, "elsewhere.example.org", false},
		{"of another address", "both", two, "127.0.0.2", false},
		{"that is over", "old", old, here, false},
		{"of an authority that is gone", "one", two, here, false},
		{"the first authority again", "one", one, here, true},
	} {
		roots = pools[step.roots]
		serve(step.by, step.host)
		err := ask()
		if _, distrust := errors.AsType[*tls.CertificateVerificationError](err); (err == nil) != step.trusted || !step.trusted && !distrust {
			t.Errorf("a certificate %s: %v", step.name, err)
		}
	}
}
