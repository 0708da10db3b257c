package middleware

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/api/server/respond"
)

// Metrics count requests by route pattern, method and status. Every label has
// few values, whatever callers send.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	Watches  prometheus.Gauge
}

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "oscarfed_http_requests_total",
			Help: "Requests answered, by route, method and status; of what a function or an OSCAR has answered by its class, such as 5xx.",
		}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "oscarfed_http_request_duration_seconds",
			Help: "Time from a request's head to the end of its answer, by route and method.",
			// A creation on a real OSCAR takes 6 to 20 s and waits 60 s by default.
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120},
		}, []string{"route", "method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "oscarfed_http_requests_in_flight",
			Help: "Requests that are being answered, watches included.",
		}),
		Watches: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "oscarfed_http_watches",
			Help: "Watches that are open.",
		}),
	}
	registry.MustRegister(m.requests, m.duration, m.inFlight, m.Watches)
	return m
}

func (m *Metrics) measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		m.inFlight.Inc()
		defer func() {
			m.inFlight.Dec()
			route, method := respond.RouteOf(r), methodLabel(r.Method)
			if respond.StateOf(r).Watch {
				method = "WATCH" // its duration says nothing of the others'
			}
			m.requests.WithLabelValues(route, method, codeLabel(statusOf(ww), respond.StateOf(r).Passed)).Inc()
			m.duration.WithLabelValues(route, method).Observe(time.Since(start).Seconds())
		}()
		next.ServeHTTP(ww, r)
	})
}

// codeLabel is a status of ours, or the class of one that was passed on: that is no fault of the control plane's, and a
// function may answer with any.
func codeLabel(status int, passed bool) string {
	if passed {
		return strconv.Itoa(status/100) + "xx"
	}
	return strconv.Itoa(status)
}

func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// recoverer answers 500 when a handler panics, and logs where. The process goes
// on: a request holds nothing that another one needs.
func recoverer(log *slog.Logger) func(http.Handler) http.Handler {
	return around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				panic(p)
			}
			log.ErrorContext(r.Context(), "panic in a handler",
				"request_id", respond.StateOf(r).ID, "route", respond.RouteOf(r), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			if ww.Status() != 0 {
				// Half an answer is out: break the connection, so that it is not
				// taken for a whole one.
				panic(http.ErrAbortHandler)
			}
			respond.Problem(ww, r, respond.InternalProblem(r))
		}()
		next.ServeHTTP(ww, r)
	})
}
