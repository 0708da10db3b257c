package world

import (
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/keyserver"
	"github.com/oscarfed/oscarfed/syncer/origin"
)

// answersOSCAR lets a syncer answer its OSCAR with the keys of an origin's MinIO, at an
// address of its own.
func (c *Cluster) answersOSCAR(cfg *syncer.Config, over *Link) {
	t := c.world.T
	t.Helper()
	listener := Must(c.world.at(HostSyncer(c.ID)).Listen(t.Context()))(t)
	t.Cleanup(func() { _ = listener.Close() }) // of one that was never started
	origins := Must(origin.New(origin.Config{ControlPlane: c.world.front.url, Dial: over.DialContext}))(t)
	t.Cleanup(origins.Close)
	cfg.LocalURL, cfg.Origins = "http://"+listener.Addr().String(), origins
	cfg.Local = Must(keyserver.New(keyserver.Config{Listener: listener, Logger: cfg.Logger}))(t)
}
