package outbound

import (
	"crypto/x509"
	"net/http"
	"sync"
)

// RootPool gives the authorities that a server is verified with now; nil for the system's. After each change it gives
// another pool. A nil RootPool is the system's for ever.
type RootPool func() *x509.CertPool

// Pool is what the function gives.
func (r RootPool) Pool() *x509.CertPool {
	if r == nil {
		return nil
	}
	return r()
}

// Follow has what a transport does verified with the roots of each moment. When they have changed, new connections
// are made. The transport is ready: nothing of it is changed afterwards.
func Follow(t *http.Transport, roots RootPool) http.RoundTripper {
	if roots == nil {
		return t
	}
	f := &follower{roots: roots, pool: roots(), now: t}
	t.TLSClientConfig.RootCAs = f.pool
	return f
}

// follower is a transport for the present roots, and the next one for the next.
type follower struct {
	roots RootPool

	mu   sync.Mutex
	pool *x509.CertPool
	now  *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (f *follower) RoundTrip(r *http.Request) (*http.Response, error) {
	return f.present().RoundTrip(r)
}

// CloseIdleConnections is what http.Client.CloseIdleConnections looks for.
func (f *follower) CloseIdleConnections() { f.present().CloseIdleConnections() }

func (f *follower) present() *http.Transport {
	f.mu.Lock()
	defer f.mu.Unlock()
	if pool := f.roots(); pool != f.pool {
		next := f.now.Clone()
		next.TLSClientConfig.RootCAs = pool
		f.now.CloseIdleConnections()
		f.pool, f.now = pool, next
	}
	return f.now
}
