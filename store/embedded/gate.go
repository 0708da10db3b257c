package embedded

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/auth"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

const (
	// rootUser sets etcd's users up. He is let in while there are none.
	rootUser = "root"
	// rightsInterval is how often the rights of those who are connected are looked at.
	rightsInterval = time.Second
	// maxConnections of one user who is not trusted. A syncer has fewer than ten.
	maxConnections = 64
)

// gate is the TLS of a guarded server. It knows whose each connection is, and ends
// it when that user's rights change or his certificate ends: etcd itself looks at a
// certificate when a connection is made, at the rights of a watch when it is opened,
// and never again.
type gate struct {
	credentials.TransportCredentials
	trusted []string
	log     *slog.Logger
	// users is etcd's own store of users, once the server has one.
	users atomic.Pointer[auth.AuthStore]

	mu    sync.Mutex
	conns map[*gated]struct{}
}

func newGate(conf *tls.Config, trusted []string, log *slog.Logger) *gate {
	return &gate{TransportCredentials: credentials.NewTLS(conf), trusted: trusted, log: log, conns: map[*gated]struct{}{}}
}

// gated is the connection of one user.
type gated struct {
	net.Conn
	gate *gate
	user string
	// rights are those that he had when he connected.
	rights string
	// expiry closes the connection at the end of its certificate.
	expiry *time.Timer
	once   sync.Once
}

// Clone implements credentials.TransportCredentials: there is one gate.
func (g *gate) Clone() credentials.TransportCredentials { return g }

// ServerHandshake implements credentials.TransportCredentials.
func (g *gate) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := g.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	cert := certificateOf(info)
	if cert == nil {
		return nil, nil, errors.Join(errors.New("a client without a certificate"), conn.Close())
	}
	c := &gated{Conn: conn, gate: g, user: cert.Subject.CommonName}
	if err := g.admit(c, cert); err != nil {
		g.log.Warn("a client of etcd was not let in", "user", c.user, "remote", raw.RemoteAddr().String(), "error", err)
		return nil, nil, errors.Join(err, conn.Close())
	}
	return c, info, nil
}

// admit takes a connection in. While etcd asks nobody who he is, everybody with a
// certificate could do everything: then only root is let in, who switches that on.
func (g *gate) admit(c *gated, cert *x509.Certificate) error {
	rights, on := g.rights(c.user)
	if !on && c.user != rootUser {
		return errors.New("etcd's authentication is not switched on; only root is let in")
	}
	c.rights = rights
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.trusted, c.user) {
		held := 0
		for other := range g.conns {
			if other.user == c.user {
				held++
			}
		}
		if held >= maxConnections {
			return fmt.Errorf("user %s has %d connections", c.user, held)
		}
	}
	c.expiry = time.AfterFunc(time.Until(cert.NotAfter), func() { _ = c.Close() })
	g.conns[c] = struct{}{}
	return nil
}

// Close ends the connection and with it all of its watches.
func (c *gated) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		c.expiry.Stop()
		c.gate.mu.Lock()
		delete(c.gate.conns, c)
		c.gate.mu.Unlock()
		err = c.Conn.Close()
	})
	return err
}

// watch ends connections whose user has other rights than when he connected, until
// closing is closed.
func (g *gate) watch(closing <-chan struct{}) {
	tick := time.NewTicker(rightsInterval)
	defer tick.Stop()
	var seen uint64
	for {
		select {
		case <-closing:
			return
		case <-tick.C:
		}
		// The revision is read before the rights: a change in between is seen next time.
		users := g.users.Load()
		if rev := (*users).Revision(); rev != seen {
			seen = rev
			g.look()
		}
	}
}

func (g *gate) look() {
	g.mu.Lock()
	conns := make([]*gated, 0, len(g.conns))
	for c := range g.conns {
		conns = append(conns, c)
	}
	g.mu.Unlock()
	known := map[string]string{}
	cut := map[string]int{}
	for _, c := range conns {
		now, ok := known[c.user]
		if !ok {
			now, _ = g.rights(c.user)
			known[c.user] = now
		}
		if c.rights != now {
			_ = c.Close() // the other side may have ended it already
			cut[c.user]++
		}
	}
	for user, n := range cut {
		g.log.Info("connections to etcd were ended: the rights of their user have changed", "user", user, "connections", n)
	}
}

// rights says in words what a user may do; empty for one whom etcd does not know.
// on is false while etcd asks nobody who he is.
func (g *gate) rights(user string) (words string, on bool) {
	users := g.users.Load()
	if users == nil || !(*users).IsAuthEnabled() {
		return "", false
	}
	u, err := (*users).UserGet(&pb.AuthUserGetRequest{Name: user})
	if err != nil {
		return "", true
	}
	var out strings.Builder
	for _, name := range u.Roles {
		fmt.Fprintf(&out, "%q", name)
		role, err := (*users).RoleGet(&pb.AuthRoleGetRequest{Role: name})
		if err != nil {
			continue
		}
		for _, p := range role.Perm {
			fmt.Fprintf(&out, " %s %q %q", p.PermType, p.Key, p.RangeEnd)
		}
		out.WriteByte(';')
	}
	return out.String(), true
}

// knows says whether etcd has a user of that name.
func (g *gate) knows(user string) bool {
	rights, on := g.rights(user)
	return on && rights != ""
}

// userOf is who makes a request; empty without a certificate.
func userOf(ctx context.Context) string {
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
