package request

import (
	"fmt"
	"strings"
	"sync"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// ownerDigits is how many hexadecimal digits of a request's hash name the account that
// its record is counted for: so that a key tells whose it is, also when it goes.
const ownerDigits = 16

// ownerOfRequest names an account at the beginning of the hash of its requests.
func ownerOfRequest(account string) string { return sha256Hex([]byte(account))[:ownerDigits] }

// requestCounts are how many idempotency records each account has. It is told of every
// change of the store, in order, and keeps a number for each account.
type requestCounts struct {
	mu sync.Mutex
	of map[string]int
}

// Listed implements store.Tap.
func (r *requestCounts) Listed(kvs []store.KV) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of = map[string]int{}
	for _, kv := range kvs {
		if owner, ok := requestOwner(kv.Key); ok {
			r.add(owner, 1)
		}
	}
}

// Changed implements store.Tap.
func (r *requestCounts) Changed(kv store.KV, deleted bool) {
	owner, ok := requestOwner(kv.Key)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case deleted:
		r.add(owner, -1)
	case kv.CreateRevision == kv.ModRevision:
		r.add(owner, 1)
	}
}

// add needs mu.
func (r *requestCounts) add(owner string, n int) {
	if r.of == nil {
		r.of = map[string]int{}
	}
	now := r.of[owner] + n
	if now <= 0 {
		delete(r.of, owner)
		return
	}
	r.of[strings.Clone(owner)] = now
}

func (r *requestCounts) count(owner string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[owner]
}

func requestOwner(key string) (string, bool) {
	hash, ok := strings.CutPrefix(key, record.RequestsPrefix)
	if !ok || len(hash) < ownerDigits {
		return "", false
	}
	return hash[:ownerDigits], true
}

// MayKeep refuses a request whose record would be one too many. None is forgotten before
// its time for that. What takes something away has a tenth more. Each instance counts
// what it has seen: several can together pass the limit by what they accept within a
// moment. A request without a key is forgotten with its outcome.
func (c *Controller) MayKeep(q Claim) error {
	most := c.cfg.RequestsPerUser
	if q.TakesAway {
		most += max(most/10, 1)
	}
	if !q.keyed || c.counters.requests.count(q.Hash[:ownerDigits]) < most {
		return nil
	}
	return &fault.Error{Code: fault.CodeExhausted, RetryAfter: c.cfg.SweepInterval, Message: fmt.Sprintf(
		"%d requests with an Idempotency-Key of yours are kept, and %d may be, each for %s; send this one without a key, or later",
		c.counters.requests.count(q.Hash[:ownerDigits]), most, c.cfg.KeepRequest)}
}
