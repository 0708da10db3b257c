package keyserver

import (
	"net"
	"sync"
)

// connectionLimiter is a listener that limits its connections, in all and from each address, so that a
// flood from one address does not shut out the others. It closes further connections at once.
type connectionLimiter struct {
	net.Listener
	max, maxPerHost int

	mu          sync.Mutex
	open        int
	openPerHost map[string]int
}

// Accept implements net.Listener.
func (t *connectionLimiter) Accept() (net.Conn, error) {
	for {
		conn, err := t.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := hostOf(conn)
		if t.acquire(host) {
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { t.release(host) })}, nil
		}
		_ = conn.Close() // without an answer
	}
}

func hostOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return conn.RemoteAddr().String()
	}
	return host
}

func (t *connectionLimiter) acquire(host string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open >= t.max || t.openPerHost[host] >= t.maxPerHost {
		return false
	}
	t.open++
	t.openPerHost[host]++
	return true
}

func (t *connectionLimiter) release(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	if t.openPerHost[host]--; t.openPerHost[host] == 0 {
		delete(t.openPerHost, host)
	}
}

// limitedConn is a connection that counts until it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (g *limitedConn) Close() error {
	g.release()
	return g.Conn.Close()
}
