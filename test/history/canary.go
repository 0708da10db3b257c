package history

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/world"
)

// canaries are secrets that may be read in no answer of the API and in no line of a log.
type canaries struct {
	mu      sync.Mutex
	secrets []string
	seen    []string
	// hidden is how many of the secrets the replay looks for.
	hidden int
}

func newCanaries() *canaries {
	return &canaries{secrets: []string{secret, world.Password, base64.StdEncoding.EncodeToString([]byte(world.User + ":" + world.Password))}}
}

// add makes a text a secret.
func (c *canaries) add(texts ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secrets = append(c.secrets, texts...)
}

// hide lets a replay look for the secrets that were added since the last call, or for all when it is
// a new one.
func (c *canaries) hide(r *invariants.Replay, anew bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if anew {
		c.hidden = 0
	}
	added := c.secrets[c.hidden:]
	c.hidden = len(c.secrets)
	return r.Hide(added)
}

// look keeps which secrets can be read in a text.
func (c *canaries) look(where string, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shown, err := invariants.Readable(text, c.secrets)
	if err != nil {
		shown = []string{err.Error()}
	}
	for _, s := range shown {
		c.seen = append(c.seen, fmt.Sprintf("%s: %s", where, s))
	}
}

// watch looks at all that an API answers, but for streams, which are the bytes of others.
func (c *canaries) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		copied := &answer{ResponseWriter: w}
		next.ServeHTTP(copied, r)
		c.look(fmt.Sprintf("the answer to %s %s", r.Method, r.URL.Path), copied.body.Bytes())
	})
}

// answer is an answer that is read while it is written.
type answer struct {
	http.ResponseWriter
	body bytes.Buffer
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.body.Write(p)
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// unread demands that no secret was told: in an answer, or in the logs of control planes and syncers.
// The tokens of the services that stand are secrets, too.
func (p *player) unread() {
	p.t.Helper()
	for i := range p.plan.Shape.All() {
		sim := p.w.Cluster(clusterID(i)).Sim
		for _, name := range sim.Services() {
			if view, ok := sim.Service(name); ok && view.Token != "" {
				p.canaries.add(view.Token)
			}
		}
	}
	p.canaries.look("the log", []byte(p.w.Log.String()))
	for _, where := range slices.Compact(p.canaries.seen) {
		p.t.Errorf("a secret can be read in %s", where)
	}
}
