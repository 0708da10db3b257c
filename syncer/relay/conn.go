package relay

import (
	"io"
	"net"
	"sync"
)

// upgraded is a connection after its upgrade. The HTTP client may have buffered the first bytes,
// so it is read through the client's body. Deadlines are those of the connection below.
type upgraded struct {
	net.Conn
	body   io.ReadWriteCloser
	once   sync.Once
	closed chan struct{}
}

func (u *upgraded) Read(p []byte) (int, error)  { return u.body.Read(p) }
func (u *upgraded) Write(p []byte) (int, error) { return u.body.Write(p) }

func (u *upgraded) Close() error {
	err := u.body.Close()
	u.once.Do(func() { close(u.closed) })
	return err
}

// oneConnListener is a listener that accepts one connection, and ends with it.
type oneConnListener struct {
	conn  *upgraded
	given chan net.Conn
	once  sync.Once
	ended chan struct{}
}

func listenOn(conn *upgraded) *oneConnListener {
	l := &oneConnListener{conn: conn, given: make(chan net.Conn, 1), ended: make(chan struct{})}
	l.given <- conn
	return l
}

// Accept implements net.Listener.
func (l *oneConnListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.given:
		return c, nil
	case <-l.conn.closed:
		return nil, net.ErrClosed
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It leaves the connection to its server.
func (l *oneConnListener) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

// Addr implements net.Listener.
func (l *oneConnListener) Addr() net.Addr { return l.conn.LocalAddr() }
