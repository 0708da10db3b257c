package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/storetest"
)

// TestAConnectionThatDiedInSilenceIsLeft: its router was restarted, and forgot it. New
// connections work.
func TestAConnectionThatDiedInSilenceIsLeft(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	proxy := storetest.NewProxy(t, server.URL)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	through := transport(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, 100*time.Millisecond, 100*time.Millisecond)
	t.Cleanup(through.CloseIdleConnections)

	ask := func(patience time.Duration) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, proxy.Endpoint(), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: through}).Do(req)
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		return string(body), err
	}
	if proto, err := ask(time.Minute); err != nil || proto != "HTTP/2.0" {
		t.Fatalf("%q, %v", proto, err)
	}
	proxy.FreezeOpen()
	for end := time.Now().Add(time.Minute); ; {
		proto, err := ask(time.Second)
		if err == nil && proto == "HTTP/2.0" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("requests still wait on it: %v", err)
		}
	}
}
