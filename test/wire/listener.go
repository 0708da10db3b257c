package wire

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// listener implements net.Listener. Its state is under the network's lock.
type listener struct {
	host    *Host
	addr    net.Addr
	waiting sync.Cond
	backlog []*end
	closed  error
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.host.net.mu.Lock()
	defer l.host.net.mu.Unlock()
	for {
		switch {
		case l.closed != nil:
			return nil, &net.OpError{Op: "accept", Net: tcp, Addr: l.addr, Err: l.closed}
		case len(l.backlog) > 0 && !l.host.frozen:
			e := l.backlog[0]
			l.backlog = l.backlog[1:]
			return e, nil
		}
		l.waiting.Wait()
	}
}

// Close implements net.Listener. Connections that were not accepted are reset.
func (l *listener) Close() error {
	l.host.net.mu.Lock()
	defer l.host.net.mu.Unlock()
	if l.closed != nil {
		return &net.OpError{Op: "close", Net: tcp, Addr: l.addr, Err: net.ErrClosed}
	}
	l.close(net.ErrClosed)
	return nil
}

func (l *listener) close(why error) {
	if l.closed != nil {
		return
	}
	l.closed = why
	l.host.net.kill(l.backlog)
	l.backlog = nil
	l.host.listeners = slices.DeleteFunc(l.host.listeners, func(other *listener) bool { return other == l })
	l.host.net.endpoints[l.addr.String()].listener = nil
	l.waiting.Broadcast()
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

const tcp = "tcp"

// name is an address that is not one of IP.
type name string

func (name) Network() string  { return tcp }
func (n name) String() string { return string(n) }

func addrOf(address string) net.Addr {
	if ap, err := netip.ParseAddrPort(address); err == nil {
		return net.TCPAddrFromAddrPort(ap)
	}
	return name(address)
}
