package controlplane

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store/record"
)

// describeCreate tells what the creation of a draft writes. Like describeChange it
// is pure: it reads what the draft was made of and decides nothing.
func describeCreate(d *draft, around surroundings) *Plan {
	public, patch := oscar.SplitSecrets(d.service)
	plan := describe(&d.fed, PlanCreate, d.fence)
	plan.NextGeneration = d.fed.Generation
	plan.Fields, plan.Secrets = compared(nil, public, nil, patch)
	plan.EdgesAdded = graphOf(&d.fed).Edges()
	for _, r := range d.rendered {
		out := around.created(r)
		role := "member of a new federation"
		if r.at.Coordinator {
			role = "coordinator of a new federation"
		}
		out.Reasons = append([]string{role}, out.Reasons...)
		plan.Replicas = append(plan.Replicas, out)
		plan.Warnings = append(plan.Warnings, around.ofCreation(r.at, d.fed.Deployment)...)
	}
	return plan
}

// describeChange tells what a change writes. sent is what each replica's OSCAR is
// sent at present, by uid.
func describeChange(d *changeDraft, sent map[string]rendered, around surroundings) *Plan {
	before := &d.sit.fed
	action := PlanChange
	if !d.differs {
		action = PlanNone
	}
	plan := describe(&d.next, action, d.fence)
	plan.UID, plan.Revision, plan.Generation, plan.NextGeneration = before.UID, d.rev, before.Generation, d.next.Generation
	plan.TopologyBefore = before.Topology
	oldPublic, oldPatch := oscar.SplitSecrets(d.old)
	public, patch := oscar.SplitSecrets(d.service)
	plan.Fields, plan.Secrets = compared(oldPublic, public, oldPatch, patch)
	was, is := graphOf(before), graphOf(&d.next)
	plan.EdgesAdded, plan.EdgesRemoved = edgesWithout(is, was), edgesWithout(was, is)
	states := map[string]replicaState{}
	for _, r := range d.sit.replicas {
		states[r.at.UID] = r
	}
	for _, r := range d.rendered {
		if _, stays := states[r.at.UID]; stays {
			plan.Replicas = append(plan.Replicas, around.updated(r, sent[r.at.UID], d.next.Generation))
			continue
		}
		out := around.created(r)
		out.Reasons = append([]string{"new member of the " + topologyWords(d.next.Topology)}, out.Reasons...)
		plan.Replicas = append(plan.Replicas, out)
		plan.Warnings = append(plan.Warnings, around.ofCreation(r.at, d.next.Deployment)...)
	}
	for _, r := range d.sit.replicas {
		switch {
		case !d.differs:
			plan.Replicas = append(plan.Replicas, around.line(r.at, PlanNone, "its definition is the same"))
		case memberOf(d.next.Members, r.at.UID) < 0:
			plan.Replicas = append(plan.Replicas, around.line(r.at, PlanRemove,
				"no member any more: its storage is detached, then it is deleted; buckets and objects stay, and running jobs end first"))
		}
		plan.Warnings = append(plan.Warnings, around.ofReplica(r, before)...)
	}
	plan.Warnings = append(plan.Warnings, ofFederation(d.sit)...)
	return plan
}

// describe is what a plan says of the federation as it will be.
func describe(f *record.Federation, action PlanAction, fence int64) *Plan {
	plan := &Plan{
		Action: action, GroupID: f.GroupID, Owner: f.Owner, Fence: fence, Deployment: f.Deployment, Topology: f.Topology,
	}
	if at := f.Coordinator(); at != nil {
		plan.Cluster, plan.Service = at.ClusterID, at.ServiceName
	}
	return plan
}

func (s surroundings) line(m record.Member, action PlanAction, reasons ...string) PlannedReplica {
	return PlannedReplica{
		ClusterID: m.ClusterID, ServiceName: m.ServiceName, Action: action, Reasons: reasons, Delay: s.clusters[m.ClusterID].queue,
	}
}

func (s surroundings) created(r rendered) PlannedReplica {
	out := s.line(r.at, PlanCreate)
	out.Votes, out.Left, out.Spec = true, r.left, r.specDigest(true)
	if r.origin != nil {
		out.Reasons = append(out.Reasons, storageWords(r.origin))
	}
	if len(r.left) > 0 {
		out.Reasons = append(out.Reasons, "attaches to what an earlier life of the service, or of the federation, left: "+strings.Join(r.left, ", "))
	}
	return out
}

func (s surroundings) updated(r, before rendered, generation int64) PlannedReplica {
	out := s.line(r.at, PlanUpdate)
	out.Left, out.Spec = r.left, r.specDigest(false)
	out.Fields, out.Secrets = compared(before.public, r.public, withoutToken(before.patch), r.secrets())
	if names := topFields(out.Fields, out.Secrets); len(names) > 0 {
		verb := " differ"
		if len(names) == 1 {
			verb = " differs"
		}
		out.Reasons = append(out.Reasons, strings.Join(names, ", ")+verb)
	}
	if added := without(r.sees, before.sees); len(added) > 0 {
		out.Reasons = append(out.Reasons, "lists "+some(added)+" as well")
	}
	if gone := without(before.sees, r.sees); len(gone) > 0 {
		out.Reasons = append(out.Reasons, "lists "+some(gone)+" no more")
	}
	switch {
	case r.origin == nil && before.origin != nil:
		out.Reasons = append(out.Reasons, "minio.default is that of its own cluster again")
	case r.origin != nil && (before.origin == nil || *r.origin != *before.origin):
		out.Reasons = append(out.Reasons, storageWords(r.origin))
	}
	if len(out.Reasons) == 0 {
		out.Reasons = []string{"the same definition as generation " + strconv.FormatInt(generation, 10)}
	}
	return out
}

// storageWords says whose storage a worker uses.
func storageWords(o *record.OriginStorage) string {
	return fmt.Sprintf("minio.default is that of %s, %s, where its syncer answers its OSCAR for it (--local-url)", o.ClusterID, o.MinioEndpoint)
}

// ofCreation warns of what may keep a new replica from being made.
func (s surroundings) ofCreation(m record.Member, deployment string) []PlanWarning {
	at := s.clusters[m.ClusterID]
	without := "without its vote nothing is created"
	if deployment == oscar.DeploymentBestEffort {
		without = "the replica is created when it can be"
	}
	var out []PlanWarning
	warn := func(reason record.Reason, message string) {
		out = append(out, PlanWarning{m.ClusterID, m.ServiceName, reason, message + "; " + without})
	}
	switch {
	case !at.alive:
		warn(record.ReasonSessionLost, away(at.lastSeen))
	case at.state == record.ClusterPaused:
		warn(record.ReasonPaused, "the cluster is paused")
	case at.reason != "":
		warn(at.reason, at.message)
	case at.queue > s.maxDelay:
		warn(record.ReasonQueueTooLong, fmt.Sprintf("the cluster's write queue is %s long, at most %s are waited for", at.queue, s.maxDelay))
	}
	return out
}

// ofReplica warns of a replica that is not as it should be already, and of its
// cluster.
func (s surroundings) ofReplica(r replicaState, f *record.Federation) []PlanWarning {
	m, at := r.at, s.clusters[r.at.ClusterID]
	var out []PlanWarning
	warn := func(reason record.Reason, message string) {
		out = append(out, PlanWarning{m.ClusterID, m.ServiceName, reason, message})
	}
	switch {
	case !at.alive:
		warn(record.ReasonSessionLost, away(at.lastSeen)+"; it follows when it is back")
	case at.state == record.ClusterPaused:
		warn(record.ReasonPaused, "the cluster is paused; it follows when it is resumed")
	case at.reason != "":
		warn(at.reason, at.message+"; it follows when it can")
	}
	if at.state == record.ClusterCordoned {
		warn("", "the cluster is cordoned: what is there can be changed, nothing new is placed on it")
	}
	switch st := r.status(f, m); st.Phase {
	case record.PhaseReady, record.PhaseApplying, record.PhaseUnreachable:
	default:
		message := "the replica is " + string(st.Phase) + " at generation " + strconv.FormatInt(st.ObservedGeneration, 10)
		if st.Message != "" {
			message += ": " + st.Message
		}
		warn(st.Reason, message)
	}
	return out
}

func ofFederation(s situation) []PlanWarning {
	var out []PlanWarning
	if s.fed.Paused {
		out = append(out, PlanWarning{Reason: record.ReasonPaused, Message: "the federation is paused: what is written is applied when it is resumed"})
	}
	for _, r := range s.leaving {
		out = append(out, PlanWarning{ClusterID: r.at.ClusterID, ServiceName: r.at.ServiceName,
			Message: "its removal waits for the cluster and holds the name there"})
	}
	return out
}

func away(lastSeen *time.Time) string {
	if lastSeen == nil {
		return "no syncer is connected"
	}
	return "no syncer since " + lastSeen.UTC().Format(time.RFC3339)
}

func topologyWords(topology string) string {
	if topology == oscar.TopologyNone {
		return "federation"
	}
	return topology
}

// edgesWithout are who lists whom in a and not in b.
func edgesWithout(a, b *topology.Graph) [][2]string {
	known := map[[2]string]bool{}
	for _, e := range b.Edges() {
		known[e] = true
	}
	return slices.DeleteFunc(a.Edges(), func(e [2]string) bool { return known[e] })
}

// without are the words of a that are not in b.
func without(a, b []string) []string {
	known := map[string]bool{}
	for _, word := range b {
		known[word] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(word string) bool { return known[word] })
}

// some names a few of a list, and how many more there are.
func some(list []string) string {
	const most = 3
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}
