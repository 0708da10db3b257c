package keyserver

import (
	"net"
	"sync"
)

// turnstile is a listener that limits its connections, in all and from each address, so that a
// flood from one address does not shut out the others. It closes further connections at once.
type turnstile struct {
	net.Listener
	most, ofOne int

	mu     sync.Mutex
	all    int
	inside map[string]int
}

// Accept implements net.Listener.
func (t *turnstile) Accept() (net.Conn, error) {
	for {
		conn, err := t.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := hostOf(conn)
		if t.enter(host) {
			return &guest{Conn: conn, leave: sync.OnceFunc(func() { t.leave(host) })}, nil
		}
		_ = conn.Close() // he is told nothing
	}
}

func hostOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return conn.RemoteAddr().String()
	}
	return host
}

func (t *turnstile) enter(host string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all >= t.most || t.inside[host] >= t.ofOne {
		return false
	}
	t.all++
	t.inside[host]++
	return true
}

func (t *turnstile) leave(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.inside[host]--; t.inside[host] == 0 {
		delete(t.inside, host)
	}
}

// guest is a connection that is inside.
type guest struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (g *guest) Close() error {
	g.leave()
	return g.Conn.Close()
}
