package request

import (
	"fmt"
	"strings"
	"sync"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// ownerDigits is how many hexadecimal digits of a request's hash identify the account that its
// record counts for. So the key alone tells the account, also when the record is deleted.
const ownerDigits = 16

// ownerOfRequest is the beginning of the hash of an account's requests.
func ownerOfRequest(account string) string { return sha256Hex([]byte(account))[:ownerDigits] }

// requestCounts counts the idempotency records of each account. It receives every change of the
// store, in order.
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

// MayKeep refuses a request whose record would exceed the account's limit. No record is deleted
// early to make space. Requests that only remove something may exceed the limit by a tenth.
// Each instance counts what it has seen, so several can together exceed the limit by what they
// accept within a moment. The record of a request without a key is deleted with its outcome.
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
