package identity

import (
	"crypto/sha256"
	"maps"
	"sync"
	"time"
)

// maxChecked is how many checked tokens are remembered.
const maxChecked = 10_000

// cache remembers callers by the hash of their token, until the token expires.
type cache struct {
	mu      sync.Mutex
	callers map[[sha256.Size]byte]Caller
}

func newCache() *cache { return &cache{callers: map[[sha256.Size]byte]Caller{}} }

func (c *cache) get(key [sha256.Size]byte, now time.Time) (Caller, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	caller, ok := c.callers[key]
	if ok && !now.Before(caller.user.expiry) {
		delete(c.callers, key)
		return Caller{}, false
	}
	return caller, ok
}

// put forgets some others when it is full: they are asked about again.
func (c *cache) put(key [sha256.Size]byte, caller Caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.callers) >= maxChecked {
		drop := maxChecked / 10
		maps.DeleteFunc(c.callers, func([sha256.Size]byte, Caller) bool {
			drop--
			return drop >= 0
		})
	}
	c.callers[key] = caller
}
