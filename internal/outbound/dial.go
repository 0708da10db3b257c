package outbound

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Dial makes a connection, as the method DialContext of net.Dialer does. A nil Dial uses
// the network of this machine.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Within is d with a limit for one connection.
func (d Dial) Within(limit time.Duration) Dial {
	if d == nil {
		return (&net.Dialer{Timeout: limit, KeepAlive: keepAlive}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return d(ctx, network, address)
	}
}

// Transport is the function Transport over d.
func (d Dial) Transport(conf *tls.Config) *http.Transport {
	t := Transport(conf)
	t.DialContext = d.Within(dialTimeout)
	return t
}
