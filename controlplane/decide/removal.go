package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// decideEvacuation takes a federation off clusters that are being removed, one transaction for
// each: a creation under way ends, a change that adds a member there is refused, and a ready
// federation goes on without its member. A federation with a change under way waits for that
// first. A coordinator is never taken away from its federation: without force nothing happens;
// with force the federation is deleted.
//
//	preparing ──► abort              ready, a member there ──► leave
//	applying ───► roll back          ready, the coordinator there, force ──► delete
//	ready, a change adds there ──► refuse the change
func decideEvacuation(s view.Situation) Decision {
	if len(s.Removing) == 0 {
		return Decision{}
	}
	there := func(r view.ReplicaState) bool { return s.Removing[r.At.ClusterID] != nil }
	switch s.Fed.Phase {
	case record.PhasePreparing:
		if slices.ContainsFunc(s.Replicas, there) {
			return Abort(s, func(r view.ReplicaState) *record.Failure { return clusterGoes(s, r, record.OperationVote) })
		}
	case record.PhaseApplying:
		if slices.ContainsFunc(s.Replicas, there) {
			return RollBack(s, func(r view.ReplicaState) *record.Failure { return clusterGoes(s, r, record.OperationCreate) })
		}
	case record.PhaseReady:
		if s.Fed.Change != nil && slices.ContainsFunc(s.Adding, there) {
			return RefuseChange(s)
		}
		if c := s.Fed.Coordinator(); c != nil && s.Removing[c.ClusterID] != nil {
			if removal := s.Removing[c.ClusterID]; removal.Force {
				d := Deletion(s, DeletionOrders{RequestID: removal.RequestID})
				d.Step, d.Fed.RequestID, d.Fed.By = StepDisband, removal.RequestID, identity.Admin
				return d
			}
			return Decision{}
		}
		if i := slices.IndexFunc(s.Replicas, there); i >= 0 && s.Fed.Change == nil {
			return Decision{Step: StepLeave, Leave: s.Replicas[i].At.ClusterID}
		}
	}
	return Decision{}
}

// clusterGoes is the cause of a replica whose cluster is being removed; nil for any other
// replica.
func clusterGoes(s view.Situation, r view.ReplicaState, operation string) *record.Failure {
	if s.Removing[r.At.ClusterID] == nil {
		return nil
	}
	return &record.Failure{
		Reason: record.ReasonClusterRemoving, Operation: operation,
		Message: "the cluster is being removed; leave it out, or name another one",
	}
}

// tombstoneFor is the tombstone of a replica that leaves the graph. The order that
// removes its cluster may say that the service itself stays.
func tombstoneFor(s view.Situation, r view.ReplicaState, cause record.Cause, requestID string) *record.Desired {
	t := tombstone(r.Desired, cause)
	t.RequestID = requestID
	if removal := s.Removing[r.At.ClusterID]; removal != nil && removal.Orphan && removal.RequestID == requestID {
		t.Cause, t.Keep = record.CauseRemoved, record.KeepRelease
	}
	return t
}

// ClusterSituation has everything that a decision about the removal of a cluster needs, at one
// revision.
type ClusterSituation struct {
	reg   record.Cluster
	alive bool
	// trouble is why it counts as away although its syncer is connected.
	trouble view.Trouble
	// coordinated lists the ready federations that have their coordinator on the cluster.
	coordinated []string
	// Members counts the federations with a member on the cluster, Leaving those that wait for
	// a tombstone there, and Records the desired records, tombstones included.
	Members, Leaving, Records int
	// tokens counts the orders about refresh tokens that the cluster has not carried out, and
	// jobs the attempts that are there.
	tokens, jobs int
}

// ClusterDecision is the next step of a removal: unregister, or what it waits for.
type ClusterDecision struct {
	Unregister bool
	// Waits says what the removal waits for. Blocked says that a person has to act.
	Waits   string
	Blocked bool
}

// Removal is pure. The registration goes when no federation has a member on
// the cluster any more and, without force, when the cluster has acknowledged every
// tombstone. Nothing new can come: the order to remove bumped the fence.
func Removal(s ClusterSituation) ClusterDecision {
	removal := s.reg.Removal
	switch {
	case removal == nil:
		return ClusterDecision{}
	case len(s.coordinated) > 0 && !removal.Force:
		return ClusterDecision{Blocked: true, Waits: coordinatorsMessage(s.reg.ClusterID, s.coordinated)}
	case s.Members > 0, removal.Force && s.Leaving > 0:
		return ClusterDecision{Waits: fmt.Sprintf("%d federations have not left it yet", max(s.Members, s.Leaving))}
	case removal.Force || s.Records+s.tokens+s.jobs == 0:
		return ClusterDecision{Unregister: true}
	case s.Records == 0 && s.jobs > 0 && !s.alive:
		return ClusterDecision{Blocked: true, Waits: fmt.Sprintf(
			"cluster %q is away and has %d jobs: start its syncer, or use force, and they end as vanished", s.reg.ClusterID, s.jobs)}
	case s.Records == 0 && s.jobs > 0:
		return ClusterDecision{Waits: fmt.Sprintf("%d jobs have not ended there yet", s.jobs)}
	case s.Records == 0 && !s.alive:
		return ClusterDecision{Blocked: true, Waits: fmt.Sprintf(
			"cluster %q is away and holds %d refresh tokens that are to be revoked: start its syncer, or use force, and revoke them at their issuers by hand", s.reg.ClusterID, s.tokens)}
	case s.Records == 0:
		return ClusterDecision{Waits: fmt.Sprintf("it has not deleted %d refresh tokens yet", s.tokens)}
	case !s.alive:
		return ClusterDecision{Blocked: true, Waits: awayMessage(s, s.Records)}
	}
	return ClusterDecision{Waits: fmt.Sprintf("it has not acknowledged %d tombstones yet", s.Records)}
}

// RefuseRemoval says why a removal is not begun, and the way out; empty when it is.
func RefuseRemoval(s ClusterSituation, force bool) string {
	switch {
	case force:
		return ""
	case len(s.coordinated) > 0:
		return coordinatorsMessage(s.reg.ClusterID, s.coordinated)
	case !s.alive && s.Members+s.Records > 0:
		return awayMessage(s, max(s.Members, s.Records))
	}
	return ""
}

func coordinatorsMessage(cluster string, federations []string) string {
	return fmt.Sprintf("the coordinators of %s are on cluster %q, and a federation cannot stand without its coordinator: delete them, or create them on another cluster first; "+
		"force deletes them with the cluster: their services go everywhere, buckets and objects stay", someOf(federations), cluster)
}

// someOf names a few of many.
func someOf(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// RemovalSituation is the situation of a cluster that is being removed, and the revision of its
// registration; false when it is not registered.
func RemovalSituation(v *view.View, id string) (ClusterSituation, int64, bool) {
	reg, ok := v.Clusters.Lookup(id)
	if !ok {
		return ClusterSituation{}, 0, false
	}
	out := ClusterSituation{reg: *reg.Rec, trouble: v.Trouble(id)}
	out.alive = v.Alive(id) && !out.trouble.Away
	for _, uid := range slices.Sorted(v.OnCluster.Of(id)) {
		f := v.Federations.Get(uid).Rec
		on := func(m record.Member) bool { return m.ClusterID == id && m.Replica() }
		if slices.ContainsFunc(f.Leaving, on) {
			out.Leaving++
		}
		switch f.Phase {
		case record.PhasePreparing, record.PhaseApplying, record.PhaseReady:
		default:
			continue
		}
		if c := f.Coordinator(); c != nil && c.ClusterID == id && f.Phase == record.PhaseReady {
			out.coordinated = append(out.coordinated, f.Owner+"/"+f.GroupID)
		}
		if slices.ContainsFunc(f.Members, on) || f.Change != nil && slices.ContainsFunc(f.Change.Members, on) {
			out.Members++
		}
	}
	n := v.Nodes.Get(id)
	out.Records, out.jobs = n.Desired.Len(), n.Assignments.Len()
	out.tokens = v.Tokens.HeldAt(id)
	return out, reg.Rev, true
}
