package outbound

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
)

// NotPublicError says why a connection was not made: the address is none of the public internet.
// It does not say which address it is: a name of an inner network may have led there, which the
// user who chose the name may not know.
type NotPublicError struct{ Why string }

// Error implements error.
func (e *NotPublicError) Error() string { return "the address is " + e.Why }

// OnlyPublic has a transport connect over dial, to public addresses and to those in allowed alone.
// It is for URLs that users choose: without it, a user would reach what this machine reaches. The
// address is checked when it is dialled, so that a name cannot lead to another one afterwards; a
// proxy, which would go where this does not, is not used.
func OnlyPublic(t *http.Transport, allowed []netip.Prefix, dial Dial) {
	check := func(address string) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		own, err := net.InterfaceAddrs()
		if err != nil {
			return fmt.Errorf("the addresses of this machine: %w", err)
		}
		if why := notPublic(at.Addr(), allowed, own); why != "" {
			return &NotPublicError{Why: why}
		}
		return nil
	}
	t.Proxy = nil
	if dial == nil {
		dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
		// It is called after a name was resolved.
		dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error { return check(address) }
		t.DialContext = dialer.DialContext
		return
	}
	// A name is refused: what dial makes of it is not known here.
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := check(address); err != nil {
			return nil, err
		}
		return dial.Within(dialTimeout)(ctx, network, address)
	}
}

// special are the networks that are not the public internet's, of the registries of IANA
// for IPv4 and IPv6. Of IPv6 only 2000::/3 is given out, so only exceptions of that are
// here.
func special() []network {
	list := func(why string, prefixes ...string) (out []network) {
		for _, p := range prefixes {
			out = append(out, network{netip.MustParsePrefix(p), why})
		}
		return out
	}
	return slices.Concat(
		list("a loopback address", "127.0.0.0/8", "::1/128"),
		list("a link-local address", "169.254.0.0/16", "fe80::/10"),
		list("a private address", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10", "64:ff9b:1::/48"),
		list("an address of a cloud's own services", "168.63.129.16/32"),
		list("reserved, and no address of a host", "0.0.0.0/8", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
			"2001::/23", "2002::/16", "5f00::/16", "ff00::/8"),
		list("an address of examples", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
	)
}

type network struct {
	prefix netip.Prefix
	why    string
}

// notPublic says why an address is none that anybody may have us connect to; empty when
// it is public, or allowed. own are the addresses of this machine, which may be public.
func notPublic(a netip.Addr, allowed []netip.Prefix, own []net.Addr) string {
	a = a.Unmap().WithZone("")
	if slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return ""
	}
	if slices.ContainsFunc(own, func(o net.Addr) bool {
		n, ok := o.(*net.IPNet)
		if !ok {
			return false
		}
		mine, ok := netip.AddrFromSlice(n.IP)
		return ok && mine.Unmap() == a && !a.IsLoopback()
	}) {
		return "an address of this machine"
	}
	if nat64 := netip.MustParsePrefix("64:ff9b::/96"); nat64.Contains(a) {
		inner := a.As16()
		return notPublic(netip.AddrFrom4([4]byte(inner[12:])), allowed, own)
	}
	for _, n := range special() {
		if n.prefix.Contains(a) {
			return n.why
		}
	}
	if global := netip.MustParsePrefix("2000::/3"); a.Is6() && !global.Contains(a) {
		return "reserved, and no address of a host"
	}
	return ""
}
