package world

import (
	"net"

	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/keyserver"
	"github.com/oscarfed/oscarfed/syncer/origin"
)

// answersOSCAR lets a syncer answer its OSCAR with the keys of an origin's MinIO, at an
// address of its own.
func (c *Cluster) answersOSCAR(cfg *syncer.Config) {
	t := c.world.T
	t.Helper()
	listener := Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() }) // of one that was never started
	origins := Must(origin.New(origin.Config{ControlPlane: c.world.front.url}))(t)
	t.Cleanup(origins.Close)
	cfg.LocalURL, cfg.Origins = "http://"+listener.Addr().String(), origins
	cfg.Local = Must(keyserver.New(keyserver.Config{Listener: listener, Logger: cfg.Logger}))(t)
}
