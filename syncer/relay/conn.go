package relay

import (
	"io"
	"net"
	"sync"
)

// upgraded is a connection after its upgrade. The client that asked for it may have read
// on: what it has is read first. Deadlines are those of the connection below.
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

// single is a listener that gives one connection, and ends when that does.
type single struct {
	conn  *upgraded
	given chan net.Conn
	once  sync.Once
	ended chan struct{}
}

func listenOn(conn *upgraded) *single {
	l := &single{conn: conn, given: make(chan net.Conn, 1), ended: make(chan struct{})}
	l.given <- conn
	return l
}

// Accept implements net.Listener.
func (l *single) Accept() (net.Conn, error) {
	select {
	case c := <-l.given:
		return c, nil
	case <-l.conn.closed:
		return nil, net.ErrClosed
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. The connection is its server's.
func (l *single) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

// Addr implements net.Listener.
func (l *single) Addr() net.Addr { return l.conn.LocalAddr() }
