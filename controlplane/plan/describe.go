package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// describeCreate shows what the creation of a draft writes. Like describeChange it is pure: it
// reads the parts of the draft and decides nothing.
func describeCreate(d *federations.Draft, around surroundings) *v1.Plan {
	public, patch := oscar.SplitSecrets(d.Service)
	plan := describe(&d.Fed, v1.PlanCreate, d.Fence)
	plan.NextGeneration = d.Fed.Generation
	plan.Fields, plan.Secrets = compared(nil, public, nil, patch)
	plan.Topology.EdgesAdded = view.GraphOf(&d.Fed).Edges()
	for _, r := range d.Rendered {
		out := around.created(r)
		role := "member of a new federation"
		if r.At.Coordinator {
			role = "coordinator of a new federation"
		}
		out.Reasons = append([]string{role}, out.Reasons...)
		plan.Replicas = append(plan.Replicas, out)
		plan.Warnings = append(plan.Warnings, around.ofCreation(r.At, d.Fed.Deployment)...)
	}
	return plan
}

// describeChange shows what a change writes. sent has the service that each replica's OSCAR is
// sent at present, by uid.
func describeChange(d *federations.ChangeDraft, sent map[string]federations.Rendered, around surroundings) *v1.Plan {
	before := &d.Sit.Fed
	action := v1.PlanChange
	if !d.Differs {
		action = v1.PlanNone
	}
	plan := describe(&d.Next, action, d.Fence)
	plan.UID, plan.Revision, plan.Generation, plan.NextGeneration = before.UID, d.Rev, before.Generation, d.Next.Generation
	plan.Topology.Before = before.Topology
	oldPublic, oldPatch := oscar.SplitSecrets(d.Old)
	public, patch := oscar.SplitSecrets(d.Service)
	plan.Fields, plan.Secrets = compared(oldPublic, public, oldPatch, patch)
	was, is := view.GraphOf(before), view.GraphOf(&d.Next)
	plan.Topology.EdgesAdded, plan.Topology.EdgesRemoved = edgesWithout(is, was), edgesWithout(was, is)
	states := map[string]view.ReplicaState{}
	for _, r := range d.Sit.Replicas {
		states[r.At.UID] = r
	}
	for _, r := range d.Rendered {
		if _, stays := states[r.At.UID]; stays {
			plan.Replicas = append(plan.Replicas, around.updated(r, sent[r.At.UID], d.Next.Generation))
			continue
		}
		out := around.created(r)
		out.Reasons = append([]string{"new member of the " + topologyWords(d.Next.Topology)}, out.Reasons...)
		plan.Replicas = append(plan.Replicas, out)
		plan.Warnings = append(plan.Warnings, around.ofCreation(r.At, d.Next.Deployment)...)
	}
	for _, r := range d.Sit.Replicas {
		switch {
		case !d.Differs:
			plan.Replicas = append(plan.Replicas, around.line(r.At, v1.PlanNone, "its definition is the same"))
		case view.MemberOf(d.Next.Members, r.At.UID) < 0:
			plan.Replicas = append(plan.Replicas, around.line(r.At, v1.PlanRemove,
				"no member any more: its storage is detached, then it is deleted; buckets and objects stay, and running jobs end first"))
		}
		plan.Warnings = append(plan.Warnings, around.ofReplica(r, before)...)
	}
	plan.Warnings = append(plan.Warnings, ofInputs(d.Old, d.Service)...)
	plan.Warnings = append(plan.Warnings, ofExpose(d.Old, d.Service)...)
	plan.Warnings = append(plan.Warnings, ofFederation(d.Sit)...)
	return plan
}

// describe begins the plan of a federation's next record.
func describe(f *record.Federation, action string, fence int64) *v1.Plan {
	plan := &v1.Plan{
		Action: action, GroupID: f.GroupID, Owner: f.Owner, ClustersRevision: fence, Deployment: f.Deployment,
		Topology: v1.PlanTopology{After: f.Topology, EdgesAdded: [][2]string{}, EdgesRemoved: [][2]string{}},
		Replicas: []v1.PlanReplica{}, Warnings: []v1.PlanWarning{},
	}
	if at := f.Coordinator(); at != nil {
		plan.Coordinator = v1.Address{ClusterID: at.ClusterID, ServiceName: at.ServiceName}
	}
	return plan
}

func (s surroundings) line(m record.Member, action string, reasons ...string) v1.PlanReplica {
	return v1.PlanReplica{
		ClusterID: m.ClusterID, ServiceName: m.ServiceName, Action: action, Reasons: reasons, DelayS: int64(s.clusters[m.ClusterID].queue.Seconds()),
	}
}

func (s surroundings) created(r federations.Rendered) v1.PlanReplica {
	out := s.line(r.At, v1.PlanCreate)
	out.Votes, out.BucketsLeft, out.Spec = true, r.Left, r.SpecDigest(true)
	if r.Origin != nil {
		out.Reasons = append(out.Reasons, storageWords(r.Origin))
	}
	if len(r.Left) > 0 {
		out.Reasons = append(out.Reasons, "attaches to what an earlier life of the service, or of the federation, left: "+strings.Join(r.Left, ", "))
	}
	return out
}

func (s surroundings) updated(r, before federations.Rendered, generation int64) v1.PlanReplica {
	out := s.line(r.At, v1.PlanUpdate)
	out.BucketsLeft, out.Spec = r.Left, r.SpecDigest(false)
	out.Fields, out.Secrets = compared(before.Public, r.Public, federations.WithoutToken(before.Patch), r.Secrets())
	if names := topFields(out.Fields, out.Secrets); len(names) > 0 {
		verb := " differ"
		if len(names) == 1 {
			verb = " differs"
		}
		out.Reasons = append(out.Reasons, strings.Join(names, ", ")+verb)
	}
	if added := without(r.Sees, before.Sees); len(added) > 0 {
		out.Reasons = append(out.Reasons, "lists "+some(added)+" as well")
	}
	if gone := without(before.Sees, r.Sees); len(gone) > 0 {
		out.Reasons = append(out.Reasons, "lists "+some(gone)+" no more")
	}
	switch {
	case r.Origin == nil && before.Origin != nil:
		out.Reasons = append(out.Reasons, "minio.default is that of its own cluster again")
	case r.Origin != nil && (before.Origin == nil || *r.Origin != *before.Origin):
		out.Reasons = append(out.Reasons, storageWords(r.Origin))
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

// ofCreation warns of obstacles to making a new replica.
func (s surroundings) ofCreation(m record.Member, deployment string) []v1.PlanWarning {
	at := s.clusters[m.ClusterID]
	without := "without its vote nothing is created"
	if deployment == oscar.DeploymentBestEffort {
		without = "the replica is created when it can be"
	}
	var out []v1.PlanWarning
	warn := func(reason record.Reason, message string) {
		out = append(out, v1.PlanWarning{ClusterID: m.ClusterID, ServiceName: m.ServiceName, Reason: string(reason), Message: message + "; " + without})
	}
	switch {
	case !at.alive:
		warn(record.ReasonSessionLost, view.Away(at.lastSeen))
	case at.state == record.ClusterPaused:
		warn(record.ReasonPaused, "the cluster is paused")
	case at.reason != "":
		warn(at.reason, at.message)
	case at.queue > s.maxDelay:
		warn(record.ReasonQueueTooLong, fmt.Sprintf("the cluster's write queue is %s long, at most %s are waited for", at.queue, s.maxDelay))
	}
	return out
}

// ofReplica warns of a replica that is not in its desired state already, and of its cluster.
func (s surroundings) ofReplica(r view.ReplicaState, f *record.Federation) []v1.PlanWarning {
	m, at := r.At, s.clusters[r.At.ClusterID]
	var out []v1.PlanWarning
	warn := func(reason record.Reason, message string) {
		out = append(out, v1.PlanWarning{ClusterID: m.ClusterID, ServiceName: m.ServiceName, Reason: string(reason), Message: message})
	}
	switch {
	case !at.alive:
		warn(record.ReasonSessionLost, view.Away(at.lastSeen)+"; it follows when it is back")
	case at.state == record.ClusterPaused:
		warn(record.ReasonPaused, "the cluster is paused; it follows when it is resumed")
	case at.reason != "":
		warn(at.reason, at.message+"; it follows when it can")
	}
	if at.state == record.ClusterCordoned {
		warn("", "the cluster is cordoned: what is there can be changed, nothing new is placed on it")
	}
	switch st := r.Status(f, m); st.Phase {
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

// ofInputs warns of new inputs whose uploads start no job: OSCAR makes a notification with its
// bucket, and none in a bucket that stands.
func ofInputs(before, after *oscar.Service) []v1.PlanWarning {
	stand, notified := oscar.Buckets(before), oscar.InputPaths(before)
	var out []v1.PlanWarning
	for _, path := range oscar.InputPaths(after) {
		bucket, _, _ := strings.Cut(path, "/")
		within := func(input string) bool { return path == input || strings.HasPrefix(path, input+"/") }
		if slices.Contains(stand, bucket) && !slices.ContainsFunc(notified, within) {
			out = append(out, v1.PlanWarning{Message: fmt.Sprintf(
				"uploads to %s start no job: OSCAR adds no notification to bucket %s, which is there; name a new bucket, or add it at the MinIO of each cluster", path, bucket)})
		}
	}
	return out
}

// ofExpose warns of what the PUT of OSCAR v4.1.2 does to a service that is to be exposed: it updates a Deployment, and
// makes none. Without a serverless backend it empties the script.
func ofExpose(before, after *oscar.Service) []v1.PlanWarning {
	switch {
	case !after.Exposed():
		return nil
	case before.Exposed() && after.Expose.DefaultCommand:
		return nil
	case before.Exposed():
		return []v1.PlanWarning{{Message: "a cluster whose OSCAR has no serverless backend (Knative) cannot change an exposed service without emptying its script, and leaves it as it is: delete the service there and create it again"}}
	}
	return []v1.PlanWarning{{Message: "OSCAR exposes a service when it creates it, and refuses this change (500): delete the service and create it again; its buckets stay"}}
}

func ofFederation(s view.Situation) []v1.PlanWarning {
	var out []v1.PlanWarning
	if s.Fed.Paused {
		out = append(out, v1.PlanWarning{Reason: string(record.ReasonPaused), Message: "the federation is paused: what is written is applied when it is resumed"})
	}
	for _, r := range s.Leaving {
		out = append(out, v1.PlanWarning{ClusterID: r.At.ClusterID, ServiceName: r.At.ServiceName,
			Message: "its removal waits for the cluster and holds the name there"})
	}
	return out
}

func topologyWords(topology string) string {
	if topology == oscar.TopologyNone {
		return "federation"
	}
	return topology
}

// edgesWithout lists the edges of a that are not in b.
func edgesWithout(a, b *topology.Graph) [][2]string {
	known := map[[2]string]bool{}
	for _, e := range b.Edges() {
		known[e] = true
	}
	return slices.DeleteFunc(a.Edges(), func(e [2]string) bool { return known[e] })
}

// without lists the words of a that are not in b.
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
