package controlplane

import (
	"context"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

// Info names this control plane and counts its clusters.
func (c *ControlPlane) Info(context.Context) gate.Info {
	out := gate.Info{Etcd: c.gate.SpaceView(), UpgradeUnfinished: c.Forms.Unfinished() > 0}
	c.state.Read(func(v *view.View) {
		if v.Meta != nil {
			out.ControlPlane = v.Meta.ControlPlane
		}
		out.Clusters = v.Clusters.Len()
		for id := range v.Clusters.All() {
			if v.Alive(id) {
				out.Alive++
			}
		}
	})
	return out
}

// healthTimeout is how long Health waits for etcd.
const healthTimeout = 2 * time.Second

// Health says whether requests can be served: the state is read, and etcd answers.
func (c *ControlPlane) Health(ctx context.Context) gate.Health {
	select {
	case <-c.ready:
	default:
		return gate.Health{Message: "starting: the store has not been read yet"}
	}
	if c.gate.Unverified() {
		return gate.Health{Message: "the store was restored and has no new epoch yet"}
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if err := c.gate.Fresh(ctx); err != nil {
		return gate.Health{Message: "etcd does not answer"}
	}
	// Reads go on, and so do deletions until etcd itself refuses them: a load balancer that
	// took this instance away would make it worse.
	return gate.Health{OK: true, Message: c.gate.SpaceAdvice()}
}
