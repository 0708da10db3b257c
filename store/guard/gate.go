package guard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/oscarfed/oscarfed/internal/handshake"
)

// Gate is the TLS of a guarded server. It knows whose each connection is, and ends it
// when that user's rights change or his certificate ends: etcd itself looks at a
// certificate when a connection is made, at the rights of a watch when it is opened,
// and never again.
type Gate struct {
	credentials.TransportCredentials
	guard      *Guard
	handshakes *handshake.Limiter
	admit      func(user string) (rights string, err error)
	log        *slog.Logger

	mu    sync.Mutex
	conns map[ends]*conn
}

// ends are the addresses of both ends of a connection. A client may use one address of its own for several
// addresses of the server.
type ends struct{ remote, local string }

func endsOf(remote, local net.Addr) ends { return ends{remote.String(), local.String()} }

// NewGate makes the TLS of a server, whose configuration asks for certificates. admit says whether
// a user is let in, and with what rights: see CutChanged.
func (g *Guard) NewGate(conf *tls.Config, admit func(user string) (rights string, err error)) *Gate {
	gate := &Gate{
		TransportCredentials: credentials.NewTLS(conf), guard: g, admit: admit, log: g.cfg.Logger,
		handshakes: handshake.New(handshake.Limits{}, g.cfg.Logger), conns: map[ends]*conn{},
	}
	g.gate = gate
	return gate
}

// ServerOptions put the gate into a server. Of two transport credentials gRPC takes the
// last one.
func (g *Gate) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.Creds(g), grpc.ConnectionTimeout(handshake.Timeout)}
}

// conn is the connection of one user.
type conn struct {
	net.Conn
	gate *Gate
	user string
	// rights are those that the user had when it connected.
	rights string
	// account is nil for a user without limits.
	account *user
	// expiry closes the connection at the end of its certificate, which may come while enter makes
	// it: it is under gate.mu.
	expiry *time.Timer
	once   sync.Once

	mu sync.Mutex
	// queued are the bytes of answers that were not written yet. Those of a request
	// that was broken off are written off by what is written later.
	queued int64
	closed bool
	// taken counts what was written since a time.
	taken int64
	since time.Time
}

// Clone implements credentials.TransportCredentials: there is one gate.
func (g *Gate) Clone() credentials.TransportCredentials { return g }

// ServerHandshake implements credentials.TransportCredentials.
func (g *Gate) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	done, ok := g.handshakes.Begin(raw.RemoteAddr())
	if !ok {
		return nil, nil, errors.Join(errors.New("too many connections have not shaken hands"), raw.Close())
	}
	defer done()
	tlsConn, info, err := g.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	cert := certificateOf(info)
	if cert == nil {
		return nil, nil, errors.Join(errors.New("a client without a certificate"), tlsConn.Close())
	}
	c := &conn{Conn: tlsConn, gate: g, user: cert.Subject.CommonName, since: time.Now()}
	if err := g.enter(c, cert); err != nil {
		g.log.Warn("a client of etcd was not let in", "user", c.user, "remote", raw.RemoteAddr().String(), "error", err)
		return nil, nil, errors.Join(err, tlsConn.Close())
	}
	return c, info, nil
}

// enter takes a connection in. TLS looks at a certificate when it comes, and the handshake may end
// later than the certificate.
func (g *Gate) enter(c *conn, cert *x509.Certificate) (err error) {
	left := time.Until(cert.NotAfter)
	if left <= 0 {
		return errors.New("its certificate has ended")
	}
	if c.rights, err = g.admit(c.user); err != nil {
		return err
	}
	limited := !slices.Contains(g.guard.cfg.Trusted, c.user)
	if limited {
		c.account = g.guard.userOf(c.user)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if limited {
		held := 0
		for _, other := range g.conns {
			if other.user == c.user {
				held++
			}
		}
		if held >= g.guard.cfg.Limits.Connections {
			g.guard.cfg.OnRefusal(c.user, "connections")
			return fmt.Errorf("user %s has %d connections", c.user, held)
		}
	}
	c.expiry = time.AfterFunc(left, func() { _ = c.Close() })
	g.conns[endsOf(c.RemoteAddr(), c.LocalAddr())] = c
	return nil
}

// Close ends the connection and with it all of its watches.
func (c *conn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		c.gate.mu.Lock()
		c.expiry.Stop()
		if at := endsOf(c.RemoteAddr(), c.LocalAddr()); c.gate.conns[at] == c {
			delete(c.gate.conns, at)
		}
		c.gate.mu.Unlock()
		c.forget()
		err = c.Conn.Close()
	})
	return err
}

// forget writes off what waits to be written, and all that comes later.
func (c *conn) forget() {
	if c.account == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.account.queued.Add(-c.queued)
	c.queued, c.closed = 0, true
}

// queue counts bytes of an answer that is to be written.
func (c *conn) queue(bytes int) {
	if c == nil || c.account == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.queued += int64(bytes)
	c.account.queued.Add(int64(bytes))
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.account != nil {
		c.mu.Lock()
		wrote := min(int64(n), c.queued)
		c.queued -= wrote
		c.taken += int64(n)
		c.account.queued.Add(-wrote)
		c.mu.Unlock()
	}
	return n, err
}

// Users are the connected users.
func (g *Gate) Users() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[string]int{}
	for _, c := range g.conns {
		out[c.user]++
	}
	return out
}

// Cut ends all connections of a user, and says how many there were.
func (g *Gate) Cut(user string) int {
	return g.close(func(c *conn) bool { return c.user == user })
}

// CutChanged ends connections whose user has other rights now than when it connected.
func (g *Gate) CutChanged(rights func(user string) string) {
	known, cut := map[string]string{}, map[string]int{}
	g.close(func(c *conn) bool {
		now, ok := known[c.user]
		if !ok {
			now = rights(c.user)
			known[c.user] = now
		}
		if c.rights != now {
			cut[c.user]++
		}
		return c.rights != now
	})
	for user, n := range cut {
		g.log.Info("connections to etcd were ended: the rights of their user have changed", "user", user, "connections", n)
	}
}

// CutStalled ends connections that take almost nothing of the answers that wait for them.
func (g *Gate) CutStalled(now time.Time) {
	if n := g.close(func(c *conn) bool { return c.isStalled(now) }); n > 0 {
		g.log.Info("connections to etcd were ended: they do not take what they have asked for", "connections", n)
	}
}

func (c *conn) isStalled(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queued < small {
		c.since, c.taken = now, 0
		return false
	}
	if now.Sub(c.since) < stalled {
		return false
	}
	slow := c.taken < small/16
	c.since, c.taken = now, 0
	return slow
}

func (g *Gate) close(which func(*conn) bool) (n int) {
	g.mu.Lock()
	conns := make([]*conn, 0, len(g.conns))
	for _, c := range g.conns {
		conns = append(conns, c)
	}
	g.mu.Unlock()
	for _, c := range conns {
		if which(c) {
			_ = c.Close() // the other side may have ended it already
			n++
		}
	}
	return n
}

// connOf is the connection of a request; nil without a gate.
func (g *Guard) connOf(ctx context.Context) *conn {
	p, ok := peer.FromContext(ctx)
	if !ok || g.gate == nil || p.Addr == nil || p.LocalAddr == nil {
		return nil
	}
	g.gate.mu.Lock()
	defer g.gate.mu.Unlock()
	return g.gate.conns[endsOf(p.Addr, p.LocalAddr)]
}

// UserOf is the user that makes a request; empty without a certificate.
func UserOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	if cert := certificateOf(p.AuthInfo); cert != nil {
		return cert.Subject.CommonName
	}
	return ""
}

// certificateOf is the verified certificate that etcd, too, takes the user from.
func certificateOf(info credentials.AuthInfo) *x509.Certificate {
	t, ok := info.(credentials.TLSInfo)
	if !ok {
		return nil
	}
	for _, chain := range t.State.VerifiedChains {
		if len(chain) > 0 {
			return chain[0]
		}
	}
	return nil
}
