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

// lifeline carries every connection of one part of a world. When it is cut, the part is
// as good as killed: whatever it goes on to do, nobody hears of it. What it had sent
// already arrives.
type lifeline struct {
	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

var errCut = errors.New("killed")

func newLifeline() *lifeline { return &lifeline{conns: map[net.Conn]struct{}{}} }

func (l *lifeline) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.Join(errCut, conn.Close())
	}
	l.conns[conn] = struct{}{}
	return conn, nil
}

// Cut ends all connections, and lets no others begin.
func (l *lifeline) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for conn := range l.conns {
		_ = conn.Close()
	}
	clear(l.conns)
}

// enter makes a store use the lifeline.
func (l *lifeline) enter(cfg *store.Config) {
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return l.dial(ctx, "tcp", strings.TrimPrefix(strings.TrimPrefix(address, "http://"), "https://"))
	}))
}

// transport makes an HTTP client use it.
func (l *lifeline) transport() *http.Transport {
	return &http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 16}
}
