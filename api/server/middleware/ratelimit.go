package middleware

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/httprate"

	"github.com/oscarfed/oscarfed/api/server/respond"
	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// rateWindow is what a limit counts over; the window slides.
const rateWindow = time.Second

// Limits count per caller, and per address what has no caller. Nil counters
// mean no limit.
type Limits struct {
	log       *slog.Logger
	perSecond int
	// probes are counted apart: an instance is not to be taken for ill because all
	// clusters behind the address of its prober come back at once.
	callers, addresses, probes, failures *httprate.RateLimiter
}

// NewLimits makes limits of so many requests in a second; 0 means no limit.
func NewLimits(perSecond int, log *slog.Logger) *Limits {
	if perSecond <= 0 {
		return &Limits{}
	}
	counter := func() *httprate.RateLimiter {
		// No headers of its own: Retry-After is written with the answer.
		return httprate.NewRateLimiter(perSecond, rateWindow, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
	}
	return &Limits{log: log, perSecond: perSecond, callers: counter(), addresses: counter(), probes: counter(), failures: counter()}
}

// FailedTooOften says whether the address has used up its failures.
func (l *Limits) FailedTooOften(r *http.Request) bool {
	if l.failures == nil {
		return false
	}
	_, rate, err := l.failures.Status(addressKey(r))
	return err == nil && rate >= float64(l.perSecond)
}

// Failed counts one failed authentication.
func (l *Limits) Failed(w http.ResponseWriter, r *http.Request) {
	if l.failures != nil {
		l.failures.OnLimit(w, r, addressKey(r))
	}
}

// Caller refuses what one caller sends beyond the limit.
func (l *Limits) Caller(next http.Handler) http.Handler {
	return l.limit(l.callers, next, func(r *http.Request) string { return respond.StateOf(r).Caller.Account() })
}

// Address refuses what one address sends beyond the limit to the paths
// that need no credentials.
func (l *Limits) Address(next http.Handler) http.Handler {
	return l.limit(l.addresses, next, addressKey)
}

// Probe does it for the question whether this instance serves.
func (l *Limits) Probe(next http.Handler) http.Handler {
	return l.limit(l.probes, next, addressKey)
}

func (l *Limits) limit(counter *httprate.RateLimiter, next http.Handler, key func(*http.Request) string) http.Handler {
	if counter == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if counter.OnLimit(w, r, key(r)) {
			respond.Fail(l.log, w, r, Exhausted(fmt.Sprintf("more than %d requests in a second", l.perSecond)))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// addressKey puts the addresses of one IPv6 network together: one host has them all.
func addressKey(r *http.Request) string { return httprate.CanonicalizeIP(addressOf(r)) }

// Exhausted is the error of a request beyond a limit.
func Exhausted(message string) error {
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

// Accepted remembers which credentials, or whose, were accepted from which address. They are verified
// even while other credentials from that address fail without end. It keeps a hash under a key that
// this process alone has.
type Accepted struct {
	key [sha256.Size]byte

	mu   sync.Mutex
	when map[[sha256.Size]byte]time.Time
}

// NewAccepted remembers nothing yet.
func NewAccepted() *Accepted {
	a := &Accepted{when: map[[sha256.Size]byte]time.Time{}}
	_, _ = rand.Read(a.key[:]) // it never fails
	return a
}

// hash is that of the address of a request, and its credentials; of whose they are where that is known.
func (a *Accepted) hash(r *http.Request, whose string) (out [sha256.Size]byte) {
	mac := hmac.New(sha256.New, a.key[:])
	mac.Write([]byte(addressKey(r) + "\n" + cmp.Or(whose, r.Header.Get("Authorization"))))
	mac.Sum(out[:0])
	return out
}

// Has says whether the credentials of a request were accepted from its address lately. whose names their
// user, when he is proven; else it is empty.
func (a *Accepted) Has(r *http.Request, whose string) bool {
	key := a.hash(r, whose)
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.when[key]
	return ok && time.Since(at) < acceptedFor
}

// Note remembers that they were accepted, or forgets it.
func (a *Accepted) Note(r *http.Request, whose string, good bool) {
	key := a.hash(r, whose)
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
