package history

import (
	"errors"
	"fmt"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store/record"
)

// guestTrials are those with a cluster that leaves.
func guestTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a cluster that is removed while a creation wants it gets no replica": (*trial).removedMeanwhile,
	}
}

// removedMeanwhile removes a cluster while a creation wants it: what it had got before goes, and it gets
// nothing more. The promises tell the latter.
func (t *trial) removedMeanwhile() error {
	guest := t.player.plan.Shape.guest()
	var all error
	for ways := range firstWay * 2 {
		wanted := t.alone(fmt.Sprintf("%s-%d", t.name, ways), "first")
		wanted.Federation.Topology = oscar.TopologyMesh
		wanted.Federation.Members = []oscar.Member{{Type: oscar.MemberOSCAR, ClusterID: guest, ServiceName: wanted.Name}}
		_ = t.during(ways, 0, func() func() {
			_, err := t.api.RemoveCluster(t.ctx, guest, client.RemoveClusterOptions{})
			all = errors.Join(all, err)
			return func() {}
		}, func(api *client.Client) error {
			_, err := api.CreateService(t.ctx, wanted, client.CreateOptions{Wait: trialSoon})
			return err // it is made, or the cluster is refused
		})
		all = errors.Join(all, t.await("it is removed", func() bool {
			_, err := t.api.Cluster(t.ctx, guest)
			e, ok := errors.AsType[*client.Error](err)
			return ok && e.Code() == v1.CodeNotFound
		}), t.player.register(t.ctx, t.api, guest), t.await("it has a session", func() bool {
			_, err := t.player.w.Store.Get(t.ctx, record.SessionKey(guest))
			return err == nil
		}))
	}
	return all
}
