package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/httprate"

	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// rateWindow is what a limit counts over; the window slides.
const rateWindow = time.Second

// limits count per caller, and per address what has no caller. Nil counters
// mean no limit.
type limits struct {
	perSecond int
	// probes are counted apart: an instance is not to be taken for ill because all
	// clusters behind the address of its prober come back at once.
	callers, addresses, probes, failures *httprate.RateLimiter
}

func newLimits(perSecond int) *limits {
	if perSecond <= 0 {
		return &limits{}
	}
	counter := func() *httprate.RateLimiter {
		// No headers of its own: Retry-After is written with the answer.
		return httprate.NewRateLimiter(perSecond, rateWindow, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
	}
	return &limits{perSecond: perSecond, callers: counter(), addresses: counter(), probes: counter(), failures: counter()}
}

// failedTooOften says whether the address has used up its failures.
func (l *limits) failedTooOften(r *http.Request) bool {
	if l.failures == nil {
		return false
	}
	_, rate, err := l.failures.Status(addressKey(r))
	return err == nil && rate >= float64(l.perSecond)
}

// failed counts one failed authentication.
func (l *limits) failed(w http.ResponseWriter, r *http.Request) {
	if l.failures != nil {
		l.failures.OnLimit(w, r, addressKey(r))
	}
}

// limitCaller refuses what one caller sends beyond the limit.
func (s *Server) limitCaller(next http.Handler) http.Handler {
	return s.limit(s.limits.callers, next, func(r *http.Request) string { return stateOf(r).caller.Account() })
}

// limitAddress refuses what one address sends beyond the limit to the paths
// that need no credentials.
func (s *Server) limitAddress(next http.Handler) http.Handler {
	return s.limit(s.limits.addresses, next, addressKey)
}

// limitProbe does it for the question whether this instance serves.
func (s *Server) limitProbe(next http.Handler) http.Handler {
	return s.limit(s.limits.probes, next, addressKey)
}

func (s *Server) limit(counter *httprate.RateLimiter, next http.Handler, key func(*http.Request) string) http.Handler {
	if counter == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if counter.OnLimit(w, r, key(r)) {
			s.fail(w, r, exhausted(fmt.Sprintf("more than %d requests in a second", s.limits.perSecond)))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// addressKey puts the addresses of one IPv6 network together: one host has them all.
func addressKey(r *http.Request) string { return httprate.CanonicalizeIP(addressOf(r)) }

func exhausted(message string) error {
	return &fault.Error{
		Code:       fault.CodeExhausted,
		Message:    message + "; send again after the pause in Retry-After",
		RetryAfter: rateWindow,
	}
}
