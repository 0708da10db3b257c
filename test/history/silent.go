package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
)

// drawRevives has MinIO make buckets again in a few of the plans, and somebody delete two services of an OSCAR, one after
// another: MinIO restarts for the second when the first one's bucket goes.
func (d *drawer) drawRevives(rng *rand.Rand) {
	if rng.IntN(12) > 0 {
		return
	}
	d.plan.Shape.Revives, d.plan.Shape.Latency = true, oscarsim.RealLatency
	for range 1 + rng.IntN(4) {
		f := Fault{Kind: faultDrift, On: hostOSCAR(rng.IntN(d.plan.Shape.Clusters))}
		at := time.Duration(rng.Int64N(int64(d.length)))
		for _, at := range []time.Duration{at, at + time.Duration(rng.Int64N(int64(oscarsim.RealLatency)))} {
			d.plan.Steps = append(d.plan.Steps, Step{At: at, Fault: &f})
		}
	}
}

// deleteSilent deletes the buckets that MinIO has made again, or a PUT while somebody's DELETE was at work, as an
// administrator does who is told of them, and says which there were. They have the names of their services, and nobody has
// put anything into them. What a PUT makes has the notification of its service, but that does not show. Where nobody deletes
// a service, no bucket is to be told of.
func (p *player) deleteSilent(ctx context.Context) (open []string) {
	deletes := slices.ContainsFunc(p.plan.Steps, func(s Step) bool { return s.Fault != nil && s.Fault.Kind == faultDrift })
	if !p.plan.Shape.Revives && !deletes {
		return nil
	}
	list, err := p.planes[0].client.Federations(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, f := range list {
		for _, r := range f.Replicas {
			if r.Status == nil || r.Status.Reason != string(record.ReasonWebhookLost) {
				continue
			}
			c := p.w.Cluster(r.ClusterID)
			status, _, err := p.w.TryDirectly(ctx, http.MethodDelete, c.URL+"/system/buckets/"+r.ServiceName, nil)
			open = append(open, fmt.Sprintf("the bucket of %s/%s starts no jobs, and is deleted: %d %v", r.ClusterID, r.ServiceName, status, err))
		}
	}
	return open
}

// jobless says which services of ours have a bucket from which they get no job, and nobody is told so. A syncer that was away
// does not know that the bucket was another one, nor does a later life of the service.
func (p *player) jobless(context.Context) (open []string) {
	if !p.plan.Shape.Revives || p.plan.Restores() {
		return nil
	}
	for i := range p.plan.Shape.Clusters {
		if p.calm.disturbed([]string{hostSyncer(i)}, p.began) {
			continue
		}
		sim := p.w.Cluster(clusterID(i)).Sim
		for _, name := range sim.Services() {
			view, ok := sim.Service(name)
			if !ok || view.Annotations[oscar.AnnotationUID] == "" || len(view.Inputs) == 0 || reborn(sim, name) {
				continue
			}
			if b, _ := sim.Bucket(name); !slices.Contains(b.Notifies, name) {
				open = append(open, fmt.Sprintf("%s/%s gets no jobs from its bucket: %+v", clusterID(i), name, b))
			}
		}
	}
	return open
}

// reborn says whether OSCAR was asked for more than one life of a service.
func reborn(sim *oscarsim.Sim, service string) bool {
	tokens := map[string]bool{}
	for _, life := range sim.Lives() {
		if life.Service == service {
			tokens[life.Token] = true
		}
	}
	return len(tokens) > 1
}
