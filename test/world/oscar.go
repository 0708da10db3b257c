package world

import (
	"context"
	"net"
	"net/http"
)

// OscarDies ends the cluster's OSCAR as SIGKILL does: what it was doing stops where it
// is, and its syncer's connections are refused from now on.
func (c *Cluster) OscarDies() {
	c.dead.Store(true)
	c.Sim.Kill()
	c.server.CloseClientConnections()
}

// OscarLives starts it again.
func (c *Cluster) OscarLives() { c.dead.Store(false) }

// unlessDead refuses connections to a dead OSCAR.
func (c *Cluster) unlessDead(t *http.Transport) *http.Transport {
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if c.dead.Load() {
			return nil, refused(network, address)
		}
		return dial(ctx, network, address)
	}
	return t
}
