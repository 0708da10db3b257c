package server

import (
	"net/http"
	"net/netip"
)

// HandlerWith is h behind the middleware that every request passes.
func (s *Server) HandlerWith(h http.HandlerFunc) http.Handler {
	return s.requestID(s.accessLog(s.measure(s.recoverer(h))))
}

// WatchingCallers is how many callers watches are counted for.
func (s *Server) WatchingCallers() int {
	s.watchers.mu.Lock()
	defer s.watchers.mu.Unlock()
	return len(s.watchers.open)
}

// AddressBehind is the address that counts for a request, with trusted proxies.
func AddressBehind(r *http.Request, trusted []netip.Prefix) (address string) {
	behindProxies(trusted)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { address = addressOf(r) })).ServeHTTP(nil, r)
	return address
}
