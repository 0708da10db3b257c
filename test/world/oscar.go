package world

import (
	"context"
	"net"
	"net/http"
)

// refusing is an address that refuses connections.
const refusing = "127.0.0.1:1"

// OscarDies ends the cluster's OSCAR as SIGKILL does: what it was doing stops where it
// is, and its syncer's connections are refused from now on.
func (c *Cluster) OscarDies() {
	c.dead.Store(true)
	c.Sim.Kill()
	c.server.CloseClientConnections()
}

// OscarLives starts it again.
func (c *Cluster) OscarLives() { c.dead.Store(false) }

// unlessDead sends connections to a dead OSCAR where they are refused.
func (c *Cluster) unlessDead(t *http.Transport) *http.Transport {
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if c.dead.Load() {
			address = refusing
		}
		return dial(ctx, network, address)
	}
	return t
}
