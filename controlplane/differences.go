package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
)

// Kinds of differences: those of record.HeldKind, and a service with our marks that
// no desired record speaks of.
const (
	DifferenceAhead   = string(record.HeldAhead)
	DifferenceMissing = string(record.HeldMissing)
	DifferenceOrphan  = "orphan"
)

// Whose side a person takes in a difference.
const (
	KeepCluster = "cluster"
	KeepStore   = "store"
)

// Differences is how the clusters differ from the store, after it was restored.
type Differences struct {
	Epoch string
	// RestoredAt is nil in the first epoch.
	RestoredAt *time.Time
	// Clusters are those that are registered, by id.
	Clusters []Comparison
	Items    []Difference
}

// Comparison says whether a cluster has compared what stands on it with the store, in
// the present epoch.
type Comparison struct {
	ClusterID string
	Compared  bool
	Alive     bool
	LastSeen  *time.Time
}

// Difference is one service that is held.
type Difference struct {
	Kind        string
	ClusterID   string
	ServiceName string
	// UID is that of the replica.
	UID string
	// Federation, GroupID and Owner are empty for an orphan of a federation that the
	// store does not have.
	Federation, GroupID, Owner string
	// StoreGeneration is what is desired, 0 for nothing, and ClusterGeneration what
	// stands, 0 when it is missing or its marks were dropped.
	StoreGeneration, ClusterGeneration int64
	Message                            string
	// KeepStore and KeepCluster say what taking that side does; empty when that is not
	// possible.
	KeepStore, KeepCluster string
	// Resolving says that keeping the cluster's was decided, and waits for its syncer.
	Resolving bool

	epoch     string
	tombstone bool
	origin    bool
	// claims is the federation that an orphan's marks name, whether the store has it
	// or not.
	claims string
}

// Differences lists what is held: everything for the administrator, what concerns his
// federations for anybody else.
func (c *ControlPlane) Differences(ctx context.Context, caller identity.Caller) (*Differences, error) {
	if err := c.fresh(ctx); err != nil {
		return nil, err
	}
	out := &Differences{Clusters: []Comparison{}, Items: []Difference{}}
	c.state.read(func(v *View) {
		if m := v.meta; m != nil {
			out.Epoch = m.Epoch
			if m.RestoredAt != nil {
				out.RestoredAt = &m.RestoredAt.Time
			}
		}
		for id, reg := range v.clusters {
			one := Comparison{ClusterID: id, Compared: v.comparedAll(id), Alive: v.alive(id)}
			if reg.rec.LastSeen != nil && !one.Alive {
				one.LastSeen = &reg.rec.LastSeen.Time
			}
			out.Clusters = append(out.Clusters, one)
		}
		for _, d := range v.differences(c.serviceToken) {
			if caller.Administrator || d.Owner != "" && caller.MayChange(d.Owner) {
				out.Items = append(out.Items, d)
			}
		}
	})
	slices.SortFunc(out.Clusters, func(a, b Comparison) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	return out, nil
}

// comparedAll says whether each service that is asked of a cluster was looked at in the
// present epoch, and the list of its orphans is of that too.
func (v *View) comparedAll(cluster string) bool {
	if !v.compared(cluster) {
		return false
	}
	n := v.nodes[cluster]
	for service, d := range n.desired {
		if d.rec.Intent != record.IntentApply {
			continue
		}
		if o := n.observed[service].rec; o == nil || o.UID != d.rec.UID || o.Epoch != v.epoch() {
			return false
		}
	}
	return true
}

// differences lists all, by cluster and service. token gives the service token of a replica.
func (v *View) differences(token func(uid string) string) []Difference {
	var out []Difference
	for _, f := range v.federations {
		sit := v.situation(f.rec)
		for _, r := range slices.Concat(sit.replicas, sit.adding, sit.leaving) {
			if h := r.held(); h != nil {
				d := differenceOf(f.rec, r, *h)
				d.Resolving = v.asked(&d)
				out = append(out, d)
			}
		}
	}
	for cluster, n := range v.nodes {
		if n.self.rec == nil {
			continue
		}
		for _, o := range n.self.rec.Orphans {
			if _, known := v.deleted[o.UID]; known || n.desired[o.ServiceName].rec != nil {
				continue // its deletion is ordered, or it is none any more
			}
			d := v.orphan(cluster, o)
			if i := slices.IndexFunc(n.self.rec.Unlisted, func(u record.Unlisted) bool { return u.ServiceName == o.ServiceName }); i >= 0 {
				d.Message += "; " + n.self.rec.Unlisted[i].Message
			}
			if o.Settings == "" {
				// Only a coordinator tells the definition of its federation.
			} else if left := v.lostFederation(d.claims, token); len(left) > 0 && left[0].orphan.UID == o.UID {
				d.KeepCluster = fmt.Sprintf("its federation is in the store again, with the %d replicas that are left of it; its secrets and credentials are not known: give them again", len(left))
			}
			d.Resolving = v.asked(&d)
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.ClusterID, b.ClusterID), cmp.Compare(a.ServiceName, b.ServiceName))
	})
	return out
}

// asked says whether a cluster was asked to show what a difference is about.
func (v *View) asked(d *Difference) bool {
	n := v.nodes[d.ClusterID]
	return n != nil && n.asks[d.ServiceName].rec != nil && n.asks[d.ServiceName].rec.UID == d.UID
}

// held is what the syncer has reported as held and what nobody has decided about
// since; nil for nothing.
func (r replicaState) held() *record.Held {
	o := r.observed
	if r.desired == nil || o == nil || o.UID != r.desired.UID || o.Phase != record.PhaseHeld || o.Held == nil {
		return nil
	}
	decided := r.desired.Covers(o.Held.Epoch, o.Held.Generation)
	switch {
	case o.Held.Kind == record.HeldMissing:
		decided = r.desired.Again || r.desired.Tombstone()
	case o.Held.Generation == 0:
		decided = r.desired.Epoch == o.Epoch
	}
	if decided {
		return nil
	}
	return o.Held
}

func differenceOf(f *record.Federation, r replicaState, h record.Held) Difference {
	d := Difference{
		Kind: string(h.Kind), ClusterID: r.at.ClusterID, ServiceName: r.at.ServiceName, UID: r.at.UID,
		Federation: f.UID, GroupID: f.GroupID, Owner: f.Owner, StoreGeneration: r.desired.Generation,
		ClusterGeneration: h.Generation, Message: r.observed.Message,
		epoch: h.Epoch, tombstone: r.desired.Tombstone(), origin: r.at.Coordinator,
	}
	changeable := f.Phase == record.PhaseReady && f.Change == nil && r.member >= 0
	switch {
	case d.tombstone:
		d.StoreGeneration = 0
		d.KeepStore = "it is deleted, as ordered; its buckets stay"
	case !changeable:
	case h.Kind == record.HeldMissing:
		d.KeepStore = "it is made again"
		d.KeepCluster = "it leaves the federation"
		if d.origin {
			d.KeepCluster = "the federation is deleted on every cluster; its buckets stay"
		}
	default:
		d.KeepStore = fmt.Sprintf("generation %d of the store is written over it", r.desired.Generation)
		d.KeepCluster = "what it is becomes the definition of the federation on every cluster; secrets and storage providers stay those of the store"
	}
	return d
}

func (v *View) orphan(cluster string, o record.Orphan) Difference {
	d := Difference{
		Kind: DifferenceOrphan, ClusterID: cluster, ServiceName: o.ServiceName, UID: o.UID, ClusterGeneration: o.Generation,
		Message:   "a service with our marks that the store knows nothing of; it is not changed",
		KeepStore: "it is deleted; its buckets stay", epoch: o.Epoch,
	}
	if other := v.elsewhere(cluster, o); other != "" {
		d.Message = fmt.Sprintf("a service that was made for cluster %q: is this the same OSCAR? It is not changed, and nothing here deletes it", other)
		d.KeepStore = ""
		return d
	}
	if _, err := uuid.Parse(o.Federation); err == nil {
		d.claims = o.Federation
	}
	f, ok := v.federations[o.Federation]
	if !ok {
		return d
	}
	d.Federation, d.GroupID, d.Owner = f.rec.UID, f.rec.GroupID, f.rec.Owner
	if f.rec.Phase == record.PhaseReady && f.rec.Change == nil && memberOf(f.rec.Members, o.UID) < 0 {
		d.KeepCluster = fmt.Sprintf("it is a member of federation %q again", f.rec.GroupID)
	}
	return d
}

// heldPlaces names those replicas of a federation that are held, for a change that would
// write over them or make them again.
func (v *View) heldPlaces(f *record.Federation) []string {
	var out []string
	for _, r := range v.situation(f).replicas {
		if r.held() != nil {
			out = append(out, r.at.ClusterID+"/"+r.at.ServiceName)
		}
	}
	return out
}

func heldBack(f *record.Federation, places []string) error {
	return &Error{Code: CodeConflict, Message: fmt.Sprintf(
		"federation %q is held on %s, since the store was restored from an older state; oscarfed describe shows how they differ, oscarfed resolve %s ends it",
		f.GroupID, strings.Join(places, ", "), places[0])}
}
