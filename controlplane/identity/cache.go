package identity

import (
	"crypto/sha256"
	"maps"
	"sync"
	"time"
)

// maxChecked is how many checked tokens are remembered.
const maxChecked = 10_000

const (
	// askAgain is how long what an issuer said of a token holds: groups and revocations
	// are seen after that.
	askAgain = 5 * time.Minute
	// believed is how long it holds while the issuer cannot be asked.
	believed = time.Hour
	// askPause lies between two questions to an issuer that did not answer.
	askPause = 30 * time.Second
)

// checked is a token that was found good.
type checked struct {
	caller Caller
	// asked is when the issuer said so, and again when it is to be asked next.
	asked, again time.Time
}

// cache remembers tokens by their hash, until they expire.
type cache struct {
	mu     sync.Mutex
	tokens map[[sha256.Size]byte]checked
}

func newCache() *cache { return &cache{tokens: map[[sha256.Size]byte]checked{}} }

// get gives what still holds of a token, and whether its issuer need not be asked.
func (c *cache) get(key [sha256.Size]byte, now time.Time) (caller Caller, fresh, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.tokens[key]
	if ok && (!now.Before(t.caller.user.expiry) || now.Sub(t.asked) >= believed) {
		delete(c.tokens, key)
		ok = false
	}
	if !ok {
		return Caller{}, false, false
	}
	return t.caller, now.Before(t.again), true
}

// put forgets some others when it is full: they are asked about again.
func (c *cache) put(key [sha256.Size]byte, caller Caller, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tokens) >= maxChecked {
		drop := maxChecked / 10
		maps.DeleteFunc(c.tokens, func([sha256.Size]byte, checked) bool {
			drop--
			return drop >= 0
		})
	}
	c.tokens[key] = checked{caller: caller, asked: now, again: now.Add(askAgain)}
}

// unasked puts the next question off, since the issuer did not answer.
func (c *cache) unasked(key [sha256.Size]byte, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.tokens[key]; ok {
		t.again = now.Add(askPause)
		c.tokens[key] = t
	}
}

func (c *cache) forget(key [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tokens, key)
}
