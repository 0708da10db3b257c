package api

import "net/http"

// HandlerWith is h behind the middleware that every request passes.
func (s *Server) HandlerWith(h http.HandlerFunc) http.Handler {
	return s.requestID(s.accessLog(s.measure(s.recoverer(h))))
}
