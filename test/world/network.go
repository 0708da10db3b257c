package world

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Network is what the parts of a world listen on and dial through.
type Network interface {
	Listen(ctx context.Context) (net.Listener, error)
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Loopback is the network of this machine.
type Loopback struct{}

// Listen implements Network.
func (Loopback) Listen(ctx context.Context) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
}

// DialContext implements Network.
func (Loopback) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

// listen makes a server that is not started. Whatever is open to it is closed at the
// test's end.
func listen(t testing.TB, n Network) *httptest.Server {
	t.Helper()
	server := &httptest.Server{Listener: Must(n.Listen(t.Context()))(t), Config: &http.Server{}}
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// serve starts a server, and answers its URL.
func serve(t testing.TB, n Network, handler http.Handler) string {
	t.Helper()
	server := listen(t, n)
	server.Config.Handler = handler
	server.Start()
	return server.URL
}
