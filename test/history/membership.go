package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
)

// A guest is a cluster that leaves and comes again. Free services and jobs use it. The services of
// test/linear do not: their clients would see members go that no client has removed.

// Member is an operation of the administrator on a guest.
type Member struct {
	Op string
	// Wait is how long a removal is waited for.
	Wait time.Duration `json:"wait,omitempty"`
}

// String names the operation.
func (m Member) String() string { return m.Op }

// Operations on guests.
const (
	memberCordon      = "cordon the guest"
	memberPause       = "pause the guest"
	memberActivate    = "activate the guest"
	memberRemove      = "remove the guest"
	memberOrphan      = "remove the guest, keep its services"
	memberForce       = "remove the guest by force"
	memberForceOrphan = "remove the guest by force, keep its services"
	memberReturn      = "register the guest again"
	memberWork        = "let the guest take jobs"
)

func memberOps() []string {
	return []string{
		memberCordon, memberPause, memberActivate, memberActivate, memberRemove, memberRemove, memberOrphan, memberForce, memberForce, memberForceOrphan,
		memberReturn, memberReturn, memberReturn, memberWork, memberWork,
	}
}

// guest is the id of the cluster that leaves and comes, in a plan that has one.
func (s Shape) guest() string { return clusterID(s.Clusters) }

// All is how many clusters there are, the guest among them.
func (s Shape) All() int { return s.Clusters + s.Guests }

// drawGuest draws a guest for some of the plans: what the administrator does with it, what users do
// with services there, and what is broken there.
func (d *drawer) drawGuest(rng *rand.Rand) {
	if rng.IntN(4) > 0 {
		return
	}
	d.plan.Shape.Guests = 1
	with := &drawer{rng: rng, plan: d.plan, length: d.length}
	with.client(operatorClient, 3+rng.IntN(6), func() Step {
		return Step{Member: &Member{Op: pick(rng, memberOps()...), Wait: pick(rng, 0, time.Second, 30*time.Second)}}
	})
	all, guest := d.plan.Shape.All(), d.plan.Shape.Clusters
	with.client(guestClient, 6+rng.IntN(10), func() Step {
		return Step{Free: &Free{
			// The coordinators are on the guest, or on the first cluster.
			Op: pick(rng, freeOps()...), Service: pick(rng, guestService*all+guest, guestService*all), Topology: pick(rng, "star", "tree", "mesh"),
			Members: uint8(1<<guest | rng.UintN(1<<guest)),
		}}
	})
	for range rng.IntN(4) {
		f := Fault{Kind: pick(rng, faultKill, faultFreeze, faultOSCAR), On: hostSyncer(guest), For: time.Second + time.Duration(rng.ExpFloat64()*float64(time.Minute))}
		if f.Kind == faultOSCAR || rng.IntN(4) == 0 {
			f.On = hostOSCAR(guest)
		}
		if f.Kind == faultOSCAR {
			f.Op, f.What, f.Count = drawOSCAR(rng)
		}
		d.plan.Steps = append(d.plan.Steps, Step{At: time.Duration(rng.Int64N(int64(d.length))), Fault: &f})
	}
}

// guestService makes numbers of services that no other client uses, by multiples of the clusters.
const guestService = 4

// member makes one operation of the administrator.
func (p *player) member(ctx context.Context, m Member) {
	ctx, cancel := context.WithTimeout(ctx, freeWait)
	defer cancel()
	api, id := p.users.api(), p.plan.Shape.guest()
	remove := client.RemoveClusterOptions{Wait: m.Wait}
	var err error
	switch m.Op {
	case memberCordon:
		_, err = api.SetClusterState(ctx, id, string(record.ClusterCordoned))
	case memberPause:
		_, err = api.SetClusterState(ctx, id, string(record.ClusterPaused))
	case memberActivate:
		_, err = api.SetClusterState(ctx, id, string(record.ClusterActive))
	case memberRemove, memberOrphan, memberForce, memberForceOrphan:
		remove.Orphan = m.Op == memberOrphan || m.Op == memberForceOrphan
		remove.Force = m.Op == memberForce || m.Op == memberForceOrphan
		_, err = api.RemoveCluster(ctx, id, remove)
	case memberReturn:
		err = p.register(ctx, api, id)
	case memberWork:
		home := p.users.clusters[0]
		_, err = api.AddReplicas(ctx, jobService, p.users.members(jobService, home, 1<<p.plan.Shape.Clusters), client.ChangeOptions{Async: true, ClusterID: home})
	}
	p.users.look(m.String(), err)
}

// register registers a cluster again, and lets its syncer serve the new registration.
func (p *player) register(ctx context.Context, api *client.Client, id string) error {
	if _, err := api.RegisterCluster(ctx, v1.ClusterSpec{ClusterID: id, Endpoint: p.w.Cluster(id).URL}); err != nil {
		return err
	}
	return p.serve(ctx, api, id)
}

// serve lets the syncer of a cluster serve the present registration. One that is killed or frozen
// does so when it is started again, or when the administrator looks the next time.
func (p *player) serve(ctx context.Context, api *client.Client, id string) error {
	reg, err := api.Cluster(ctx, id)
	if err != nil {
		return err
	}
	c := p.w.Cluster(id)
	p.mu.Lock()
	same := p.registered[id] == reg.UID
	p.mu.Unlock()
	if same || !p.take(c.Host()) {
		return nil
	}
	defer p.give(c.Host())
	p.mu.Lock()
	p.registered[id] = reg.UID
	p.mu.Unlock()
	c.Kill()
	c.Start()
	return nil
}

// accept tells a syncer that starts which registration is meant.
func (p *player) accept(c *syncer.Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.AcceptClusterUID = p.registered[c.ClusterID]
}

// administer does what an administrator does who wants the guest back, and says what is left to do.
func (p *player) administer(ctx context.Context) (open []string) {
	api, id := p.planes[0].client, p.plan.Shape.guest()
	switch {
	case p.plan.Shape.Guests > 0:
	case !p.restore.at.IsZero():
		return p.resolve(ctx, api)
	default:
		return nil
	}
	reg, err := api.Cluster(ctx, id)
	var e *client.Error
	switch {
	case errors.As(err, &e) && e.Code() == v1.CodeNotFound:
		return append(open, fmt.Sprintf("%s is registered again: %v", id, p.register(ctx, api, id)))
	case err != nil:
		return []string{err.Error()}
	case reg.State == string(record.ClusterRemoving):
		res, err := api.RemoveCluster(ctx, id, client.RemoveClusterOptions{Force: true, Orphan: reg.Removal.Orphan})
		return append(open, fmt.Sprintf("%s is being removed: %+v %+v %v", id, reg.Removal, res, err))
	case reg.State != string(record.ClusterActive):
		_, err := api.SetClusterState(ctx, id, string(record.ClusterActive))
		return append(open, fmt.Sprintf("%s is %s: %v", id, reg.State, err))
	}
	if err := p.serve(ctx, api, id); err != nil {
		open = append(open, err.Error())
	}
	return append(open, p.resolve(ctx, api)...)
}

// resolve decides about what differs from the store, as an administrator does: what a removed cluster
// has kept, and what was lost by a restore. It says what that was.
func (p *player) resolve(ctx context.Context, api *client.Client) (open []string) {
	found, err := api.Differences(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, c := range found.Clusters {
		if !p.restore.at.IsZero() && !c.Compared {
			open = append(open, c.ClusterID+" has not compared yet")
		}
	}
	if len(open) > 0 {
		return open
	}
	for _, d := range found.Differences {
		if !d.Resolving {
			_, err = api.Resolve(ctx, v1.Resolve{ClusterID: d.ClusterID, ServiceName: d.ServiceName, Keep: p.side(d)})
			p.users.look("resolve", err)
		}
		open = append(open, fmt.Sprintf("%s %s/%s, %s is kept: %v", d.Kind, d.ClusterID, d.ServiceName, p.side(d), err))
	}
	if len(open) > 0 {
		return open
	}
	return append(p.deleteAsTold(ctx, api), p.giveSecrets(ctx, api)...)
}

// giveSecrets changes the federations that wait for secrets which a restore has lost, as their owners do.
func (p *player) giveSecrets(ctx context.Context, api *client.Client) (open []string) {
	list, err := api.Federations(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, f := range list {
		if !slices.ContainsFunc(f.Replicas, func(r v1.Replica) bool { return r.Status != nil && r.Status.Reason == string(record.ReasonSecretsLost) }) {
			continue
		}
		s, err := api.Service(ctx, f.Coordinator.ServiceName, f.Coordinator.ClusterID)
		if err == nil {
			for key := range s.Environment.Secrets {
				s.Environment.Secrets[key] = secret
			}
			_, err = api.ChangeService(ctx, s, client.ChangeOptions{Async: true})
		}
		open = append(open, fmt.Sprintf("%s waits for its secrets, which are given: %v", f.GroupID, err))
	}
	return open
}

// deleteAsTold deletes, on its cluster, what a status asks a person to delete there. What is held and no difference
// that can be resolved is the service of another life of a replica: of a member that was removed and added again since
// the backup. A bucket that is not of the federation was kept of a member that a restore brings back.
func (p *player) deleteAsTold(ctx context.Context, api *client.Client) (open []string) {
	list, err := api.Federations(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, f := range list {
		if record.Phase(f.Phase).Result() {
			continue // it tells why a creation has failed
		}
		for _, r := range f.Replicas {
			what := ""
			switch {
			case r.Status == nil:
			case r.Status.Reason == string(record.ReasonAheadOfDesired):
				what = "services"
			case r.Status.Reason == string(record.ReasonForeignBucket) && !p.restore.at.IsZero():
				what = "buckets" // which has the service's name
			}
			if what == "" {
				continue
			}
			status, _, err := p.w.TryDirectly(ctx, http.MethodDelete, p.w.Cluster(r.ClusterID).URL+"/system/"+what+"/"+r.ServiceName, nil)
			open = append(open, fmt.Sprintf("%s/%s is %s, its %s are deleted there: %d %v", r.ClusterID, r.ServiceName, r.Status.Reason, what, status, err))
		}
	}
	return open
}
