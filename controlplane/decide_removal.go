package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
)

// decideEvacuation takes a federation off clusters that are being removed, one
// transaction for each: a creation in flight ends, a change that adds somebody
// there is refused, and a federation that stands goes on without its member. What
// has a change under way waits for that. A coordinator is never taken away from
// its federation: without force nothing happens, with it the federation goes.
//
//	preparing ──► abort              ready, a member there ──► leave
//	applying ───► roll back          ready, the coordinator there, force ──► delete
//	ready, a change adds there ──► refuse the change
func decideEvacuation(s situation) decision {
	if len(s.removing) == 0 {
		return decision{}
	}
	there := func(r replicaState) bool { return s.removing[r.at.ClusterID] != nil }
	switch s.fed.Phase {
	case record.PhasePreparing:
		if slices.ContainsFunc(s.replicas, there) {
			return abort(s, func(r replicaState) *record.Failure { return s.clusterGoes(r, "vote") })
		}
	case record.PhaseApplying:
		if slices.ContainsFunc(s.replicas, there) {
			return rollBack(s, func(r replicaState) *record.Failure { return s.clusterGoes(r, "create") })
		}
	case record.PhaseReady:
		if s.fed.Change != nil && slices.ContainsFunc(s.adding, there) {
			return refuseChange(s)
		}
		if c := s.fed.Coordinator(); c != nil && s.removing[c.ClusterID] != nil {
			if removal := s.removing[c.ClusterID]; removal.Force {
				d := deletion(s, DeleteOptions{RequestID: removal.RequestID})
				d.name, d.fed.RequestID, d.fed.By = "disband", removal.RequestID, identity.Admin
				return d
			}
			return decision{}
		}
		if i := slices.IndexFunc(s.replicas, there); i >= 0 && s.fed.Change == nil {
			return decision{name: "leave", leave: s.replicas[i].at.ClusterID}
		}
	}
	return decision{}
}

// clusterGoes is the cause of a replica whose cluster is being removed; nil for
// any other.
func (s situation) clusterGoes(r replicaState, operation string) *record.Failure {
	if s.removing[r.at.ClusterID] == nil {
		return nil
	}
	return &record.Failure{
		Reason: record.ReasonClusterRemoving, Operation: operation,
		Message: "the cluster is being removed; leave it out, or name another one",
	}
}

// farewell is the tombstone of a replica that leaves the graph. The order that
// removes its cluster may say that the service itself stays.
func (s situation) farewell(r replicaState, cause record.Cause, requestID string) *record.Desired {
	t := tombstone(r.desired, cause)
	t.RequestID = requestID
	if removal := s.removing[r.at.ClusterID]; removal != nil && removal.Orphan && removal.RequestID == requestID {
		t.Cause, t.Keep = record.CauseRemoved, record.KeepRelease
	}
	return t
}

// clusterSituation is everything that a decision about a removal is made from, at
// one revision.
type clusterSituation struct {
	reg   record.Cluster
	alive bool
	// trouble is why it counts as away although its syncer is connected.
	trouble trouble
	// coordinated are the federations that stand and have their coordinator there.
	coordinated []string
	// members counts the federations with a member there, leaving those that wait
	// for a tombstone there, and records what is desired of it, tombstones among it.
	members, leaving, records int
	// tokens counts the orders about refresh tokens that it has not carried out, and
	// jobs the attempts that stand there.
	tokens, jobs int
}

// clusterDecision is the next step of a removal: unregister, or what it waits for.
type clusterDecision struct {
	unregister bool
	// waits says in words for what, and blocked that it is for a person.
	waits   string
	blocked bool
}

// decideRemoval is pure. The registration goes when no federation has a member on
// the cluster any more and, without force, when the cluster has acknowledged every
// tombstone. Nothing new can come: the order to remove bumped the fence.
func decideRemoval(s clusterSituation) clusterDecision {
	removal := s.reg.Removal
	switch {
	case removal == nil:
		return clusterDecision{}
	case len(s.coordinated) > 0 && !removal.Force:
		return clusterDecision{blocked: true, waits: coordinatorsThere(s.reg.ClusterID, s.coordinated)}
	case s.members > 0, removal.Force && s.leaving > 0:
		return clusterDecision{waits: fmt.Sprintf("%d federations have not left it yet", max(s.members, s.leaving))}
	case removal.Force || s.records+s.tokens+s.jobs == 0:
		return clusterDecision{unregister: true}
	case s.records == 0 && s.jobs > 0 && !s.alive:
		return clusterDecision{blocked: true, waits: fmt.Sprintf(
			"cluster %q is away and has %d jobs: start its syncer, or use force, and they end as vanished", s.reg.ClusterID, s.jobs)}
	case s.records == 0 && s.jobs > 0:
		return clusterDecision{waits: fmt.Sprintf("%d jobs have not ended there yet", s.jobs)}
	case s.records == 0 && !s.alive:
		return clusterDecision{blocked: true, waits: fmt.Sprintf(
			"cluster %q is away and holds %d refresh tokens that are to be revoked: start its syncer, or use force, and revoke them at their issuers by hand", s.reg.ClusterID, s.tokens)}
	case s.records == 0:
		return clusterDecision{waits: fmt.Sprintf("it has not deleted %d refresh tokens yet", s.tokens)}
	case !s.alive:
		return clusterDecision{blocked: true, waits: awayWith(s, s.records)}
	}
	return clusterDecision{waits: fmt.Sprintf("it has not acknowledged %d tombstones yet", s.records)}
}

// refuseRemoval says why a removal is not begun, and the way out; empty when it is.
func refuseRemoval(s clusterSituation, force bool) string {
	switch {
	case force:
		return ""
	case len(s.coordinated) > 0:
		return coordinatorsThere(s.reg.ClusterID, s.coordinated)
	case !s.alive && s.members+s.records > 0:
		return awayWith(s, max(s.members, s.records))
	}
	return ""
}

func coordinatorsThere(cluster string, federations []string) string {
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

func (v *View) removal(id string) (clusterSituation, int64, bool) {
	reg, ok := v.clusters[id]
	if !ok {
		return clusterSituation{}, 0, false
	}
	out := clusterSituation{reg: *reg.rec, trouble: v.trouble(id)}
	out.alive = v.alive(id) && !out.trouble.away
	for _, uid := range slices.Sorted(maps.Keys(v.onCluster[id])) {
		f := v.federations[uid].rec
		on := func(m record.Member) bool { return m.ClusterID == id && m.Replica() }
		if slices.ContainsFunc(f.Leaving, on) {
			out.leaving++
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
			out.members++
		}
	}
	if n := v.nodes[id]; n != nil {
		out.records, out.jobs = len(n.desired), len(n.assignments)
	}
	for _, c := range v.custody {
		if _, holds := c.holds[id]; holds {
			out.tokens++
		}
	}
	return out, reg.rev, true
}

// membersOf are all that a federation names: its members, those that a change
// adds, and those that leave.
func membersOf(f *record.Federation) []record.Member {
	out := slices.Concat(f.Members, f.Leaving)
	if f.Change != nil {
		out = append(out, f.Change.Members...)
	}
	return out
}

// abandoned says whether the tombstones on a cluster belong to their federations no more: it
// is registered no more, or is being removed by force. They stay for the cluster, and nobody
// waits for them.
func (v *View) abandoned(cluster string) bool {
	reg, ok := v.clusters[cluster]
	return !ok || reg.rec.Removal != nil && reg.rec.Removal.Force
}

// departing says whether a cluster is being removed, or was.
func (v *View) departing(cluster string) bool {
	reg, ok := v.clusters[cluster]
	return !ok || reg.rec.Removal != nil
}
