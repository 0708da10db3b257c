package wire

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc"
)

// idlePerServer is how many connections of a Transport wait for their next request.
const idlePerServer = 16

// DialOption makes a gRPC client use the host.
func (h *Host) DialOption() grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return h.DialContext(ctx, tcp, strings.TrimPrefix(strings.TrimPrefix(address, "http://"), "https://"))
	})
}

// Transport makes an HTTP client use the host, over HTTP/1.1. Without a TLS
// configuration, it trusts whom the machine trusts.
func (h *Host) Transport(cfg *tls.Config) *http.Transport {
	return &http.Transport{DialContext: h.DialContext, TLSClientConfig: cfg, MaxIdleConnsPerHost: idlePerServer}
}
