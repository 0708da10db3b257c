package world

import (
	"context"
	"net"
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
