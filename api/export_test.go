package api

import (
	"net/http"
	"time"
)

// SetBodyTimeout shortens what a caller may take to send a body.
func (s *Server) SetBodyTimeout(d time.Duration) { s.bodyTimeout = d }

// HandlerWith is h behind the middleware that every request passes.
func (s *Server) HandlerWith(h http.HandlerFunc) http.Handler {
	return s.requestID(s.accessLog(s.measure(s.recoverer(h))))
}
