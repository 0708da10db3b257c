package middleware

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"

	"github.com/oscarfed/oscarfed/api/server/respond"
	"github.com/oscarfed/oscarfed/internal/tracing"
)

// maxLogPath in bytes: a path is the caller's, the log is ours.
const maxLogPath = 256

// accessLog writes one line per request: never the query (it may hold a token),
// never headers, never bodies.
func accessLog(log *slog.Logger) func(http.Handler) http.Handler {
	return around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			st := respond.StateOf(r)
			log.LogAttrs(r.Context(), accessLevel(r), "request",
				slog.String("request_id", st.ID),
				slog.String("method", r.Method),
				slog.String("path", respond.Cut(r.URL.Path, maxLogPath)),
				slog.String("route", respond.RouteOf(r)),
				slog.Int("status", statusOf(ww)),
				slog.Int("bytes", ww.BytesWritten()),
				slog.Float64("duration_ms", float64(time.Since(start).Microseconds())/1000),
				slog.String("caller", st.Caller.Account()),
				slog.String("remote", addressOf(r)),
			)
		}()
		next.ServeHTTP(ww, r)
	})
}

// traced makes the span of a request, named by its method and route.
func traced(t *tracing.Tracer) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return t.Handler(next, isProbe, func(r *http.Request) string { return r.Method + " " + respond.RouteOf(r) })
	}
}

func isProbe(r *http.Request) bool { return r.URL.Path == "/health" }

// accessLevel logs probes at a lower level than other requests.
func accessLevel(r *http.Request) slog.Level {
	if isProbe(r) {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// statusOf is what was answered: 200 when the handler said nothing.
func statusOf(w middleware.WrapResponseWriter) int {
	if code := w.Status(); code != 0 {
		return code
	}
	return http.StatusOK
}

// addressOf is the peer of the connection, or the address that trusted proxies name.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// RequestIDHeader carries the id of a request in both directions.
const RequestIDHeader = "X-Request-ID"

// maxRequestID in bytes: the id is written into records.
const maxRequestID = 64

// requestID gives every request an id and answers with it. A caller may choose
// it, to follow a request through several systems. What the control plane
// writes into its records must be unique, though: it recognises its own write
// by it when an answer of the store was lost. So a chosen id gets a tail there. A traced request
// has the id of its trace: see package tracing.
func requestID(log *slog.Logger) func(http.Handler) http.Handler {
	return around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		made := tracing.RequestID(r.Context())
		if made == "" {
			id, err := uuid.NewV7()
			if err != nil { // the system has no randomness
				log.ErrorContext(r.Context(), "no request id", "error", err)
				respond.Text(w, http.StatusInternalServerError, respond.InternalMessage)
				return
			}
			made = id.String()
		}
		st := &respond.State{ID: made, WriteID: made, Noun: "request"}
		if given := r.Header.Get(RequestIDHeader); saneID(given) {
			st.ID, st.WriteID = given, given+"."+st.WriteID
		}
		tracing.Note(r.Context(), attribute.String("request_id", st.ID))
		w.Header().Set(RequestIDHeader, st.ID)
		next.ServeHTTP(w, respond.With(r, st))
	})
}

// saneID says whether an id of a caller can go into headers, logs and records.
func saneID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// AsOSCAR marks the routes that answer as an OSCAR Manager does.
func AsOSCAR(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		respond.StateOf(r).OSCAR = true
		next.ServeHTTP(w, r)
	})
}
