package middleware

import (
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/oscarfed/oscarfed/internal/tracing"
)

// Config says what every request passes.
type Config struct {
	Logger  *slog.Logger
	Metrics *Metrics
	// Tracer makes a span of each request; nil for none.
	Tracer *tracing.Tracer
	// TrustedProxies are the networks of those whose forwarding headers are believed.
	TrustedProxies []netip.Prefix
	// Origins are those of browser pages that may call, Sent the headers of the API that they
	// may send, and Answered those that they may read.
	Origins, Sent, Answered []string
}

// Common is what every request passes before it is routed, in this order.
func Common(cfg Config) []func(http.Handler) http.Handler {
	out := []func(http.Handler) http.Handler{
		behindProxies(cfg.TrustedProxies), traced(cfg.Tracer), requestID(cfg.Logger), accessLog(cfg.Logger), cfg.Metrics.measure, recoverer(cfg.Logger), notAPage,
	}
	if len(cfg.Origins) > 0 {
		out = append(out, crossOrigin(cfg.Origins, cfg.Sent, cfg.Answered))
	}
	return append(out, foreignPages(cfg.Logger, cfg.Origins), middleware.StripSlashes, middleware.GetHead)
}

// around makes a middleware of what it does around the next handler.
func around(serve func(next http.Handler, w http.ResponseWriter, r *http.Request)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(next, w, r) })
	}
}
