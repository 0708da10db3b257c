package world

import (
	"context"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/test/bufconn"
)

// Memory is a network inside this process. An address at which nothing in it listens
// leads to the loopback.
type Memory struct {
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
	if l == nil {
		return Loopback{}.DialContext(ctx, network, address)
	}
	return l.DialContext(ctx)
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
