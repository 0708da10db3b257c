package history

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/world"
)

// drawSecrets lets the syncers of half of the plans see Secrets, and OSCARs die where they leave one without its service.
func (d *drawer) drawSecrets(rng *rand.Rand) {
	if rng.IntN(2) > 0 {
		return
	}
	d.plan.Shape.Kubernetes = true
	for range rng.IntN(4) {
		f := Fault{
			Kind: faultOSCAR, On: hostOSCAR(rng.IntN(d.plan.Shape.Clusters)), Op: pick(rng, oscarsim.OpCreate, oscarsim.OpCreate, oscarsim.OpDelete),
			What: oscarsim.FaultCrashSecret, Count: 1 + rng.IntN(2), For: time.Second + time.Duration(rng.ExpFloat64()*float64(time.Minute)),
		}
		d.plan.Steps = append(d.plan.Steps, Step{At: time.Duration(rng.Int64N(int64(d.length))), Fault: &f})
	}
}

// seesSecrets lets a syncer see the Secrets of its cluster.
func (p *player) seesSecrets(c *syncer.Config) {
	if p.plan.Shape.Kubernetes {
		c.Kube = world.Secrets{Of: func() *oscarsim.Sim { return p.w.Cluster(c.ClusterID).Sim }}
	}
}

// secretsLeft says which Secrets of ours there are yet, where syncers see them. A store that has gone back does not know of
// each that was left, and services may stay with a guest.
func (p *player) secretsLeft(context.Context) (open []string) {
	if !p.plan.Shape.Kubernetes || p.plan.Restores() {
		return nil
	}
	for i := range p.plan.Shape.Clusters {
		all := p.w.Cluster(clusterID(i)).Sim.State().Secrets
		for _, name := range slices.Sorted(maps.Keys(all)) {
			_, service, _ := strings.Cut(name, "/")
			if all[name]["KEY"] == secret && !p.observer.mayLeaveSecret(clusterID(i), service) {
				open = append(open, fmt.Sprintf("the Secret %s of %s is left", name, clusterID(i)))
			}
		}
	}
	return open
}

// mayLeaveSecret says whether it was told that the Secret of a service stays, for its owner's next creation, and why it may:
// that of a person's service goes with his access token, which may be over before the cluster comes to it, and a creation
// that OSCAR has failed does not wait for that OSCAR.
func (o *observer) mayLeaveSecret(cluster, service string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	told := o.secretsLeft[cluster+"/"+service]
	return len(told) > 0 && strings.HasPrefix(service, "person") || slices.Contains(told, record.CauseRollback)
}
