package history

import "net/http"

// Canaries look for secrets in answers and logs.
type Canaries = canaries

// NewCanaries are those of every history.
func NewCanaries() *Canaries { return newCanaries() }

// Add makes a text a secret.
func (c *canaries) Add(text string) { c.add(text) }

// Watch looks at all that an API answers.
func (c *canaries) Watch(next http.Handler) http.Handler { return c.watch(next) }

// Seen are the secrets that were told.
func (c *canaries) Seen() []string { return c.seen }
