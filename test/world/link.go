package world

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/store"
)

// Link carries every connection of one part of a world. While it is cut, the part is as
// good as killed: what it goes on to do reaches no other part. What it had sent already
// arrives.
type Link struct {
	network Network

	mu    sync.Mutex
	cut   bool
	conns map[*linkConn]struct{}
}

var errCut = errors.New("the link is cut")

// NewLink makes a link over a network.
func NewLink(over Network) *Link { return &Link{network: over, conns: map[*linkConn]struct{}{}} }

// DialContext implements Network's half of a client.
func (l *Link) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if l.isCut() {
		return nil, errCut
	}
	conn, err := l.network.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	of := &linkConn{Conn: conn, link: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.Join(errCut, conn.Close())
	}
	l.conns[of] = struct{}{}
	return of, nil
}

func (l *Link) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// Cut ends all connections, and lets no others begin until Heal.
func (l *Link) Cut() {
	l.mu.Lock()
	l.cut = true
	conns := l.conns
	l.conns = map[*linkConn]struct{}{}
	l.mu.Unlock()
	for conn := range conns {
		_ = conn.Conn.Close()
	}
}

// Heal lets connections begin again.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

// DialOption makes a gRPC client use the link.
func (l *Link) DialOption() grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return l.DialContext(ctx, "tcp", strings.TrimPrefix(strings.TrimPrefix(address, "http://"), "https://"))
	})
}

// carry makes a store use the link.
func (l *Link) carry(cfg *store.Config) { cfg.DialOptions = append(cfg.DialOptions, l.DialOption()) }

// transport makes an HTTP client use it.
func (l *Link) transport() *http.Transport {
	return &http.Transport{DialContext: l.DialContext, MaxIdleConnsPerHost: 16}
}

// linkConn is a connection that its link forgets when it is closed.
type linkConn struct {
	net.Conn
	link *Link
}

// Close implements net.Conn.
func (c *linkConn) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
