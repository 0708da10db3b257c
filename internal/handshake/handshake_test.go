package handshake_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oscarfed/oscarfed/internal/handshake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, limits handshake.Limits, secure bool) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") }))
	server.EnableHTTP2 = secure
	server.Listener = handshake.New(limits, slog.New(slog.DiscardHandler)).HTTP(server.Config, server.Listener)
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

func dial(t *testing.T, server *httptest.Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ended waits until the server has closed a connection.
func ended(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		if e, ok := err.(net.Error); ok && e.Timeout() {
			t.Fatal("the connection stands")
		}
	}
}

func get(t *testing.T, client *http.Client, url string) error {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return err
}

// A client that says nothing holds a place for the time of a handshake, and no longer; one
// more than may wait is closed at once.
func TestASilentConnectionIsClosedAndSoIsOneTooMany(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			full := serve(t, handshake.Limits{PerAddress: 2, Timeout: time.Hour}, secure)
			for range 2 {
				dial(t, full)
			}
			ended(t, dial(t, full))
			server := serve(t, handshake.Limits{Timeout: time.Second}, secure)
			ended(t, dial(t, server))
			if err := get(t, server.Client(), server.URL); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TLS alone is no request: what has only that is closed as well.
func TestTLSWithoutARequestIsNoHandshake(t *testing.T) {
	server := serve(t, handshake.Limits{Timeout: time.Second}, true)
	conf := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	conf.ServerName, conf.NextProtos = "example.com", []string{"h2"}
	conn := tls.Client(dial(t, server), conf)
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	ended(t, conn)
}

// A connection that has sent a request is no longer counted, and is not closed.
func TestConnectionsInUseAreNotCounted(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, handshake.Limits{Total: 1, Timeout: time.Minute}, secure)
			var clients []*http.Client
			for range 5 {
				transport := server.Client().Transport.(*http.Transport).Clone()
				clients = append(clients, &http.Client{Transport: transport})
				t.Cleanup(transport.CloseIdleConnections)
				if err := get(t, clients[len(clients)-1], server.URL); err != nil {
					t.Fatal(err)
				}
			}
			for _, client := range clients {
				if err := get(t, client, server.URL); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
