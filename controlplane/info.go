package controlplane

import (
	"context"
	"time"
)

// Info says who this control plane is and how many clusters it sees.
func (c *ControlPlane) Info(context.Context) Info {
	out := Info{Etcd: c.spaceView()}
	c.state.read(func(v *View) {
		if v.meta != nil {
			out.ControlPlane = v.meta.ControlPlane
		}
		out.Clusters = len(v.clusters)
		for id := range v.clusters {
			if v.alive(id) {
				out.Alive++
			}
		}
	})
	return out
}

// healthTimeout is how long Health waits for etcd.
const healthTimeout = 2 * time.Second

// Health says whether requests can be served: the state is read, and etcd answers.
func (c *ControlPlane) Health(ctx context.Context) Health {
	select {
	case <-c.ready:
	default:
		return Health{Message: "starting: the store has not been read yet"}
	}
	if c.doubtful() {
		return Health{Message: "the store was restored and has no new epoch yet"}
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if err := c.fresh(ctx); err != nil {
		return Health{Message: "etcd does not answer"}
	}
	// Reads go on, and so do deletions until etcd itself refuses them: an instance
	// that is taken away helps nobody.
	return Health{OK: true, Message: c.space.Space().Advice()}
}
