package handshake

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// HTTP makes a server count the connections of a listener until each has sent the head
// of its first request, and close those that take too long. The server serves what it
// returns. A connection that is too many is closed at once.
func (l *Limiter) HTTP(server *http.Server, listener net.Listener) net.Listener {
	next := server.ConnContext
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if next != nil {
			ctx = next(ctx, c)
		}
		if w := waitingOf(c); w != nil {
			return context.WithValue(ctx, waitingKey{}, w)
		}
		return ctx
	}
	handler := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if first, ok := r.Context().Value(waitingKey{}).(*waiting); ok {
			first.shaken()
		}
		handler.ServeHTTP(w, r)
	})
	return &bounded{listener, l}
}

// bounded is a listener that lets in no more than may wait.
type bounded struct {
	net.Listener
	limiter *Limiter
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		done, ok := b.limiter.Begin(conn.RemoteAddr())
		if !ok {
			_ = conn.Close() // it is told nothing
			continue
		}
		late := time.AfterFunc(b.limiter.limits.Timeout, func() { _ = conn.Close() })
		return &waiting{Conn: conn, late: late, done: done}, nil
	}
}

type waitingKey struct{}

// waiting is a connection that may not have shaken hands yet.
type waiting struct {
	net.Conn
	late *time.Timer
	done func()
}

func (w *waiting) shaken() {
	w.late.Stop()
	w.done()
}

// Close implements net.Conn.
func (w *waiting) Close() error {
	w.shaken()
	return w.Conn.Close()
}

// waitingOf finds the accepted connection below TLS.
func waitingOf(c net.Conn) *waiting {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	w, _ := c.(*waiting)
	return w
}
