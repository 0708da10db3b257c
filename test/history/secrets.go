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
// each that was left, and services may stay with a guest. That of a person's service goes with his access token: when that
// is over before the cluster comes to it, the Secret stays for his next creation, and that is told.
func (p *player) secretsLeft(context.Context) (open []string) {
	if !p.plan.Shape.Kubernetes || p.plan.Restores() {
		return nil
	}
	for i := range p.plan.Shape.Clusters {
		all := p.w.Cluster(clusterID(i)).Sim.State().Secrets
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if all[name]["KEY"] == secret && !p.toldOfSecret(clusterID(i), name) {
				open = append(open, fmt.Sprintf("the Secret %s of %s is left", name, clusterID(i)))
			}
		}
	}
	return open
}

// toldOfSecret says whether a syncer has told that the Secret of a person's service stays.
func (p *player) toldOfSecret(cluster, secret string) bool {
	_, service, _ := strings.Cut(secret, "/")
	if !strings.HasPrefix(service, "person") {
		return false
	}
	for line := range strings.Lines(p.w.Log.String()) {
		if strings.Contains(line, fmt.Sprintf(`"cluster":%q`, cluster)) && strings.Contains(line, fmt.Sprintf(`"service":%q`, service)) &&
			strings.Contains(line, "the service's Secret is left on the cluster") {
			return true
		}
	}
	return false
}
