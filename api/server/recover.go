package server

import (
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/go-chi/chi/v5/middleware"
)

// recoverer answers 500 when a handler panics, and logs where. The process goes
// on: a request holds nothing that another one needs.
func (s *Server) recoverer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				panic(p)
			}
			s.log.ErrorContext(r.Context(), "panic in a handler",
				"request_id", stateOf(r).id, "route", routeOf(r), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			if ww.Status() != 0 {
				// Half an answer is out: break the connection, so that it is not
				// taken for a whole one.
				panic(http.ErrAbortHandler)
			}
			writeProblem(ww, r, internalProblem(r))
		}()
		next.ServeHTTP(ww, r)
	})
}
