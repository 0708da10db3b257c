package world

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"

	"google.golang.org/grpc/test/bufconn"
)

// Memory is a network inside this process. The zero value is one that leads nowhere else.
type Memory struct {
	// Outside connects to the addresses at which nothing in the network listens. Without
	// it they refuse connections.
	Outside func(ctx context.Context, network, address string) (net.Conn, error)

	mu        sync.Mutex
	listeners map[string]*bufconn.Listener
}

// memoryBuffer in bytes is what a connection holds in each direction.
const memoryBuffer = 256 << 10

// firstMemoryPort is below the ports that the loopback gives.
const firstMemoryPort = 2

// Listen implements Network.
func (m *Memory) Listen(context.Context) (net.Listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listeners == nil {
		m.listeners = map[string]*bufconn.Listener{}
	}
	l := memoryListener{Listener: bufconn.Listen(memoryBuffer), address: memoryAddr(fmt.Sprintf("127.0.0.1:%d", firstMemoryPort+len(m.listeners)))}
	m.listeners[l.address.String()] = l.Listener
	return l, nil
}

// DialContext implements Network.
func (m *Memory) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	m.mu.Lock()
	l := m.listeners[address]
	m.mu.Unlock()
	switch {
	case l != nil:
		return l.DialContext(ctx)
	case m.Outside != nil:
		return m.Outside(ctx, network, address)
	}
	return nil, refused(network, address)
}

// refused is the error of a connection to where nothing listens.
func refused(network, address string) error {
	return &net.OpError{Op: "dial", Net: network, Addr: memoryAddr(address), Err: syscall.ECONNREFUSED}
}

// memoryListener has an address of its own.
type memoryListener struct {
	*bufconn.Listener
	address memoryAddr
}

// Addr implements net.Listener.
func (l memoryListener) Addr() net.Addr { return l.address }

// memoryAddr implements net.Addr.
type memoryAddr string

func (memoryAddr) Network() string  { return "tcp" }
func (a memoryAddr) String() string { return string(a) }
