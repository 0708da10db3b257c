package virtual

import (
	"net"
	"sync"
)

// lifetime is the listener of one life of a server. It can break the connections made through it.
type lifetime struct {
	net.Listener
	mu sync.Mutex
	// conns are nil once all are broken.
	conns map[*conn]struct{}
}

func newLifetime(on net.Listener) *lifetime {
	return &lifetime{Listener: on, conns: make(map[*conn]struct{})}
}

// Accept implements net.Listener.
func (l *lifetime) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		out := &conn{Conn: c, of: l}
		if l.add(out) {
			return out, nil
		}
		_ = c.Close()
	}
}

func (l *lifetime) add(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns != nil {
		l.conns[c] = struct{}{}
	}
	return l.conns != nil
}

// breakAll ends all connections, and lets no others begin.
func (l *lifetime) breakAll() {
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close()
	}
}

// conn is a connection that its lifetime forgets when it is closed.
type conn struct {
	net.Conn
	of *lifetime
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
