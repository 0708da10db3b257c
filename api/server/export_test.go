package server

import (
	"net/http"
	"slices"
)

// HandlerWith is h behind the middleware that every request passes.
func (s *Server) HandlerWith(h http.HandlerFunc) http.Handler {
	var out http.Handler = h
	for _, m := range slices.Backward(s.common()) {
		out = m(out)
	}
	return out
}

// WatchingCallers is how many callers watches are counted for.
func (s *Server) WatchingCallers() int {
	s.watchers.mu.Lock()
	defer s.watchers.mu.Unlock()
	return len(s.watchers.open)
}
