package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"sync"
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

const (
	// acceptedFor is how long credentials count as accepted, and maxAccepted how many are
	// remembered.
	acceptedFor = time.Hour
	maxAccepted = 10_000
)

// accepted remembers which credentials were accepted from which address. They are verified even
// while other credentials from that address fail without end. It keeps a hash under a key that
// this process alone has.
type accepted struct {
	key [sha256.Size]byte

	mu   sync.Mutex
	when map[[sha256.Size]byte]time.Time
}

func newAccepted() *accepted {
	a := &accepted{when: map[[sha256.Size]byte]time.Time{}}
	_, _ = rand.Read(a.key[:]) // it never fails
	return a
}

func (a *accepted) hash(r *http.Request) (out [sha256.Size]byte) {
	mac := hmac.New(sha256.New, a.key[:])
	mac.Write([]byte(addressKey(r) + "\n" + r.Header.Get("Authorization")))
	mac.Sum(out[:0])
	return out
}

// has says whether the credentials of a request were accepted from its address lately.
func (a *accepted) has(r *http.Request) bool {
	key := a.hash(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.when[key]
	return ok && time.Since(at) < acceptedFor
}

// note remembers that they were accepted, or forgets it.
func (a *accepted) note(r *http.Request, good bool) {
	key := a.hash(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !good {
		delete(a.when, key)
		return
	}
	if _, ok := a.when[key]; !ok && len(a.when) >= maxAccepted {
		drop := maxAccepted / 10 // of any: they count as accepted again with their next request
		maps.DeleteFunc(a.when, func([sha256.Size]byte, time.Time) bool {
			drop--
			return drop >= 0
		})
	}
	a.when[key] = time.Now()
}
