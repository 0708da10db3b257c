package recovery

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// difference is one service that is held, with what a decision about it needs.
type difference struct {
	v1.Difference
	tombstone bool
	origin    bool
	// claims is the federation that an orphan's marks name, whether the store has it
	// or not.
	claims string
	// foundIn is the epoch of the store when the difference was found.
	foundIn string
}

// Differences lists the services that are held: all of them for the administrator, those of their
// own federations for other callers.
func (c *Controller) Differences(ctx context.Context, caller identity.Caller) (*v1.Differences, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	out := &v1.Differences{Clusters: []v1.Comparison{}, Differences: []v1.Difference{}}
	c.state.Read(func(v *view.View) {
		if m := v.Meta; m != nil {
			out.Epoch = m.Epoch
			out.RestoredAt = (*v1.Time)(m.RestoredAt)
		}
		for id, reg := range v.Clusters.All() {
			one := v1.Comparison{ClusterID: id, Compared: comparedAll(v, id), Alive: v.Alive(id)}
			if reg.Rec.LastSeen != nil && !one.Alive {
				one.LastSeen = (*v1.Time)(reg.Rec.LastSeen)
			}
			out.Clusters = append(out.Clusters, one)
		}
		for _, d := range differences(v, c.tokens.ServiceToken) {
			if caller.Administrator || d.Owner != "" && caller.MayChange(d.Owner) {
				out.Differences = append(out.Differences, d.Difference)
			}
		}
	})
	slices.SortFunc(out.Clusters, func(a, b v1.Comparison) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	return out, nil
}

// comparedAll says whether the syncer of a cluster has compared every desired service in the present
// epoch, and has listed its orphans in it.
func comparedAll(v *view.View, cluster string) bool {
	if !v.Compared(cluster) {
		return false
	}
	n := v.Nodes.Get(cluster)
	for service, d := range n.Desired.All() {
		if d.Rec.Intent != record.IntentApply {
			continue
		}
		if o := n.Observed.Get(service).Rec; o == nil || o.UID != d.Rec.UID || o.Epoch != v.Epoch() {
			return false
		}
	}
	return true
}

// differences lists all, by cluster and service. token gives the service token of a replica.
func differences(v *view.View, token func(uid string) string) []difference {
	var out []difference
	for _, f := range v.Federations.All() {
		sit := v.Situation(f.Rec)
		for _, r := range slices.Concat(sit.Replicas, sit.Adding, sit.Leaving) {
			if h := r.Held(); h != nil {
				d := differenceOf(f.Rec, r, *h)
				d.Resolving = asked(v, &d)
				out = append(out, d)
			}
		}
	}
	lost := sync.OnceValue(func() map[string][]lostMember { return lostFederations(v, token) })
	for cluster, n := range v.Nodes.All() {
		if n.Self.Rec == nil {
			continue
		}
		for _, o := range n.Self.Rec.Orphans {
			if _, known := v.Deleted.Lookup(o.UID); known || n.Desired.Get(o.ServiceName).Rec != nil {
				continue // its deletion is ordered, or it is none any more
			}
			d := orphan(v, cluster, o, token)
			if i := slices.IndexFunc(n.Self.Rec.Unlisted, func(u record.Unlisted) bool { return u.ServiceName == o.ServiceName }); i >= 0 {
				d.Message += "; " + n.Self.Rec.Unlisted[i].Message
			}
			if o.Settings == "" {
				// Only the coordinator has the definition of its federation.
			} else if left := lost()[d.claims]; len(left) > 0 && left[0].orphan.UID == o.UID {
				d.KeepCluster = fmt.Sprintf("its federation is in the store again, with the %d replicas that are left of it, all with what the coordinator has; secrets stay as they are on the clusters, and nothing is written until a change gives them again", len(left))
			}
			d.Resolving = asked(v, &d)
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b difference) int {
		return cmp.Or(cmp.Compare(a.ClusterID, b.ClusterID), cmp.Compare(a.ServiceName, b.ServiceName))
	})
	return out
}

// asked says whether a cluster was asked to show the service of a difference.
func asked(v *view.View, d *difference) bool {
	ask := v.Nodes.Get(d.ClusterID).Asks.Get(d.ServiceName).Rec
	return ask != nil && ask.UID == d.UID
}

func differenceOf(f *record.Federation, r view.ReplicaState, h record.Held) difference {
	d := difference{
		Difference: v1.Difference{
			Kind: string(h.Kind), ClusterID: r.At.ClusterID, ServiceName: r.At.ServiceName, UID: r.At.UID,
			Federation: f.UID, GroupID: f.GroupID, Owner: f.Owner, StoreGeneration: r.Desired.Generation,
			ClusterGeneration: h.Generation, ClusterEpoch: h.Epoch, Message: r.Observed.Message,
		},
		tombstone: r.Desired.Tombstone(), origin: r.At.Coordinator,
	}
	changeable := f.Phase == record.PhaseReady && f.Change == nil && r.Member >= 0
	switch {
	case d.tombstone:
		d.StoreGeneration = 0
		switch {
		case r.Desired.Keep == record.KeepRelease:
			d.KeepStore = "it leaves its federation, as ordered, and runs on with its data"
		case r.Desired.Data == record.DataDelete:
			d.KeepStore = "it is deleted, as ordered, with the buckets that were made for it"
		default:
			d.KeepStore = "it is deleted, as ordered; its buckets stay"
		}
	case !changeable:
	case h.Kind == record.HeldMissing:
		d.KeepStore = "it is made again"
		d.KeepCluster = "it leaves the federation"
		if d.origin {
			d.KeepCluster = "the federation is deleted on every cluster; its buckets stay"
		}
	default:
		d.KeepStore = fmt.Sprintf("generation %d of the store is written over it", r.Desired.Generation)
		d.KeepCluster = "what it is becomes the definition of the federation on every cluster, also where this generation or an older one is held; secrets and storage providers stay those of the store; when it has a secret that the store has not, nothing is written until a change gives that"
	}
	return d
}

func orphan(v *view.View, cluster string, o record.Orphan, token func(string) string) difference {
	d := difference{
		Difference: v1.Difference{
			Kind: v1.DifferenceOrphan, ClusterID: cluster, ServiceName: o.ServiceName, UID: o.UID, ClusterGeneration: o.Generation, ClusterEpoch: o.Epoch,
			Message:   "a service with our marks that the store knows nothing of; it is not changed",
			KeepStore: "it is deleted; its buckets stay",
		},
	}
	if other := v.Elsewhere(cluster, o); other != "" {
		d.Message = fmt.Sprintf("a service that was made for cluster %q: is this the same OSCAR? It is not changed, and nothing here deletes it", other)
		d.KeepStore = ""
		return d
	}
	if _, err := uuid.Parse(o.Federation); err == nil {
		d.claims = o.Federation
	}
	f, ok := v.Federations.Lookup(o.Federation)
	if !ok {
		return d
	}
	d.Federation, d.GroupID, d.Owner = f.Rec.UID, f.Rec.GroupID, f.Rec.Owner
	if f.Rec.Phase == record.PhaseReady && f.Rec.Change == nil && view.MemberOf(f.Rec.Members, o.UID) < 0 && marked(o, token) {
		d.KeepCluster = fmt.Sprintf("it is a member of federation %q again", f.Rec.GroupID)
	}
	return d
}
