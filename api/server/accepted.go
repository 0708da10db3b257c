package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"maps"
	"net/http"
	"sync"
	"time"
)

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
