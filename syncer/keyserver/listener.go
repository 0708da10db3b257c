package keyserver

import (
	"net"

	"github.com/oscarfed/oscarfed/internal/connlimit"
)

// limitedListener limits its connections until they are closed. It closes further ones at once.
type limitedListener struct {
	net.Listener
	limit *connlimit.Limiter
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if done, ok := l.limit.Begin(conn.RemoteAddr()); ok {
			return &limitedConn{Conn: conn, done: done}, nil
		}
		_ = conn.Close() // without an answer
	}
}

// limitedConn is a connection that counts until it is closed.
type limitedConn struct {
	net.Conn
	done func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.done()
	return c.Conn.Close()
}
