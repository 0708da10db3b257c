package api

import "net/http"

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
