package process

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BalancerConfig says between what a balancer chooses.
type BalancerConfig struct {
	// Instances are the addresses, host and port, as they are now.
	Instances func() []string
	// Readiness is how instances are asked whether they are ready; nil: all are.
	Readiness *Readiness
}

// Readiness is a probe over HTTP, as of a container in Kubernetes.
type Readiness struct {
	Path            string
	Period, Timeout time.Duration
	// Failures in a row make an instance not ready; one success makes it ready.
	Failures int
}

// balancer takes connections for several instances, as a Service of Kubernetes does: it knows nothing of
// requests. When an instance takes no connection it goes on to the next.
type balancer struct {
	cfg      BalancerConfig
	listener net.Listener
	next     atomic.Int64

	mu sync.Mutex
	// failed counts the failures in a row of the instance at each place.
	failed map[int]int
}

// NewBalancer makes one for the time of a test, and gives its address.
func NewBalancer(t testing.TB, cfg BalancerConfig) (address string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{cfg: cfg, listener: l, failed: map[int]int{}}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		_ = l.Close()
	})
	if cfg.Readiness != nil {
		for k := range cfg.Instances() {
			go b.probe(ctx, k)
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go b.pass(ctx, conn)
		}
	}()
	return l.Addr().String()
}

func (b *balancer) probe(ctx context.Context, k int) {
	r := b.cfg.Readiness
	client := &http.Client{Timeout: r.Timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(r.Period)
	defer tick.Stop()
	for {
		ready := false
		if req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.cfg.Instances()[k]+r.Path, nil); err == nil {
			if resp, err := client.Do(req); err == nil {
				_ = resp.Body.Close()
				ready = resp.StatusCode < http.StatusBadRequest
			}
		}
		b.mu.Lock()
		if b.failed[k]++; ready {
			b.failed[k] = 0
		}
		b.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *balancer) ready(k int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg.Readiness == nil || b.failed[k] < b.cfg.Readiness.Failures
}

func (b *balancer) pass(ctx context.Context, from net.Conn) {
	defer func() { _ = from.Close() }()
	instances := b.cfg.Instances()
	first := int(b.next.Add(1))
	for i := range instances {
		k := (first + i) % len(instances)
		if !b.ready(k) {
			continue
		}
		to, err := (&net.Dialer{}).DialContext(ctx, "tcp", instances[k])
		if err != nil {
			continue
		}
		defer func() { _ = to.Close() }()
		ended := make(chan struct{}, 2)
		for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
			go func() {
				_, _ = io.Copy(way[1], way[0]) // an end of either is the end of both
				ended <- struct{}{}
			}()
		}
		<-ended
		return
	}
}
