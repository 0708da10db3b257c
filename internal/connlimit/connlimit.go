// Package connlimit counts connections, in all and from each address, so that a flood from one address does not shut out
// the others.
package connlimit

import (
	"net"
	"sync"
)

// Limiter is safe for concurrent use.
type Limiter struct {
	total, perAddress int

	mu   sync.Mutex
	open int
	from map[string]int
}

// New makes a limiter of so many connections in all, and from one IP address.
func New(total, perAddress int) *Limiter {
	return &Limiter{total: total, perAddress: perAddress, from: map[string]int{}}
}

// Begin counts a connection until done is called, which may be repeated. When there are too many it is false: the
// connection has to be closed.
func (l *Limiter) Begin(remote net.Addr) (done func(), ok bool) {
	host := Host(remote)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.total || l.from[host] >= l.perAddress {
		return nil, false
	}
	l.open++
	l.from[host]++
	return sync.OnceFunc(func() { l.end(host) }), true
}

func (l *Limiter) end(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.from[host]--; l.from[host] == 0 {
		delete(l.from, host)
	}
}

// Host is an address without its port.
func Host(remote net.Addr) string {
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		return remote.String()
	}
	return host
}
