package middleware

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// behindProxies takes for the address of a request what trusted proxies say of it. It is
// the first thing that happens to one; without proxies, forwarding headers are not
// believed: anybody can send them.
func behindProxies(trusted []netip.Prefix) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && len(trusted) > 0 {
				r.RemoteAddr = netip.AddrPortFrom(forwardedFor(peer.Addr().Unmap(), r.Header, trusted), peer.Port()).String()
			}
			next.ServeHTTP(w, r)
		})
	}
}

// forwardedFor reads the client's address of a request, from the right: each trusted hop vouches
// for the one before it. What a hop that is not trusted wrote is not read, and neither is a second
// header, which the proxies may only have passed on.
func forwardedFor(peer netip.Addr, h http.Header, trusted []netip.Prefix) netip.Addr {
	believed := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	list, standard := h.Values("X-Forwarded-For"), h.Values("Forwarded")
	if len(list) > 0 && len(standard) > 0 {
		return peer
	}
	hops := strings.Split(strings.Join(append(list, standard...), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !believed(peer) {
			break
		}
		if len(standard) > 0 {
			hop = forOf(hop)
		}
		before, ok := hopAddress(hop)
		if !ok {
			break
		}
		peer = before
	}
	return peer
}

// forOf is the for= of one element of Forwarded (RFC 7239).
func forOf(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		if name, value, _ := strings.Cut(strings.TrimSpace(pair), "="); strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

func hopAddress(hop string) (netip.Addr, bool) {
	hop = strings.TrimSpace(hop)
	if withPort, err := netip.ParseAddrPort(hop); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddr(strings.Trim(hop, "[]"))
	return a.Unmap().WithZone(""), err == nil
}
