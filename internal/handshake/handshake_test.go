package handshake_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oscarfed/oscarfed/internal/handshake"
	"github.com/oscarfed/oscarfed/test/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inVirtualTime runs a test in a bubble, with a network in memory.
func inVirtualTime(t *testing.T, name string, test func(*testing.T, *wire.Network)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, wire.ForTest(t)) })
	})
}

// serve serves on the host "server" of a network in memory. Its client is on the host "client".
func serve(t *testing.T, n *wire.Network, limits handshake.Limits, secure bool) *httptest.Server {
	t.Helper()
	server := &httptest.Server{
		EnableHTTP2: secure, Listener: n.Host("server").MustListen(t),
		Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") })},
	}
	server.Listener = handshake.New(limits, slog.New(slog.DiscardHandler)).HTTP(server.Config, server.Listener)
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	server.Client().Transport.(*http.Transport).DialContext = n.Host("client").DialContext
	t.Cleanup(server.Close)
	return server
}

func dial(t *testing.T, n *wire.Network, server *httptest.Server) net.Conn {
	t.Helper()
	conn, err := n.Host("client").DialContext(t.Context(), "tcp", server.Listener.Addr().String())
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
		inVirtualTime(t, name, func(t *testing.T, n *wire.Network) {
			full := serve(t, n, handshake.Limits{PerAddress: 2, Timeout: time.Hour}, secure)
			for range 2 {
				dial(t, n, full)
			}
			ended(t, dial(t, n, full))
			server := serve(t, n, handshake.Limits{Timeout: time.Second}, secure)
			ended(t, dial(t, n, server))
			if err := get(t, server.Client(), server.URL); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TLS alone is no request: what has only that is closed as well.
func TestTLSWithoutARequestIsNoHandshake(t *testing.T) {
	inVirtualTime(t, "TLS", testTLSWithoutARequest)
}

func testTLSWithoutARequest(t *testing.T, n *wire.Network) {
	server := serve(t, n, handshake.Limits{Timeout: time.Second}, true)
	conf := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	conf.ServerName, conf.NextProtos = "example.com", []string{"h2"}
	conn := tls.Client(dial(t, n, server), conf)
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
		inVirtualTime(t, name, func(t *testing.T, n *wire.Network) {
			server := serve(t, n, handshake.Limits{Total: 1, Timeout: time.Minute}, secure)
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
