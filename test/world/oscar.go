package world

import (
	"context"
	"net"
	"net/http"
	"syscall"
)

// OscarDies ends the cluster's OSCAR as SIGKILL does: what it was doing stops where it
// is, and its syncer's connections are refused from now on.
func (c *Cluster) OscarDies() {
	c.dead.Store(true)
	c.Sim.Kill()
	c.world.killHost(HostOSCAR(c.ID))
	c.server.CloseClientConnections()
}

// OscarLives starts it again.
func (c *Cluster) OscarLives() {
	if c.world.opts.Wire != nil {
		c.serve(c.world.listener(HostOSCAR(c.ID), c.address))
	}
	c.dead.Store(false)
}

// serve lets the OSCAR answer.
func (c *Cluster) serve(at net.Listener) {
	c.server = c.world.server(at)
	c.server.Config.Handler = c.Sim.Handler()
	c.server.Start()
}

// unlessDead refuses connections to a dead OSCAR.
func (c *Cluster) unlessDead(t *http.Transport) *http.Transport {
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if c.dead.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return dial(ctx, network, address)
	}
	return t
}
