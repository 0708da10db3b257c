package jobs

import (
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Candidates are the members of a federation that a job can go to, at one revision.
type Candidates struct {
	fed *record.Federation
	rev int64
	// held says that none of its jobs is assigned now; older that jobs of an older epoch are
	// held.
	held, older bool
	snapshot    delegation.Snapshot
	// Members are those of the snapshot's candidates, desired the revisions of their
	// desired records, storage the storage that they read, and nodes what their nodes have.
	Members []record.Member
	desired []int64
	storage []memberStorage
	nodes   []*record.Capacity
	// reads says that events of buckets name objects in minio.default, and byOwner that
	// OSCAR starts jobs for the owner's access token.
	reads, byOwner bool
}

// CandidatesOf lists the candidates of a federation; false when the federation takes no jobs.
func CandidatesOf(v *view.View, uid string, need *Needs) (*Candidates, bool) {
	f, ok := v.Federations.Lookup(uid)
	if !ok || f.Rec.Phase != record.PhaseReady || record.Strange(f.Rec) != "" || need == nil || need.broken {
		return nil, false
	}
	out := &Candidates{fed: f.Rec, rev: f.Rev, held: f.Rec.Paused, reads: need.reads, byOwner: need.byOwner, snapshot: delegation.Snapshot{
		Policy: f.Rec.Delegation, Topology: f.Rec.Topology, Weights: need.weights, Request: need.request,
	}}
	for _, m := range f.Rec.Members {
		candidate := delegation.Candidate{
			Cluster: m.ClusterID, Service: m.ServiceName, Coordinator: m.Coordinator, Priority: m.Priority, Weight: m.Weight,
		}
		var desired int64
		var storage memberStorage
		if m.Replica() {
			desired, storage = fillReplica(v, f.Rec, m, &candidate), storageOf(v, m)
			if candidate.Alive && !v.Listed(m.ClusterID) {
				out.held = true
			}
			out.older = out.older || !v.Listed(m.ClusterID)
		} else {
			candidate.URL = m.URL
		}
		out.snapshot.Candidates = append(out.snapshot.Candidates, candidate)
		out.Members = append(out.Members, m)
		out.desired = append(out.desired, desired)
		out.storage = append(out.storage, storage)
		out.nodes = append(out.nodes, v.Nodes.Get(m.ClusterID).Capacity.Rec)
	}
	return out, true
}

// fillReplica fills in the state of a replica, and returns the revision of its desired record.
func fillReplica(v *view.View, f *record.Federation, m record.Member, c *delegation.Candidate) int64 {
	c.Alive = v.Alive(m.ClusterID)
	c.State = delegation.StateRemoving
	if reg, ok := v.Clusters.Lookup(m.ClusterID); ok {
		c.State = delegation.State(reg.Rec.State)
	}
	d, o := v.Desired(m.ClusterID, m.ServiceName), v.Observed(m.ClusterID, m.ServiceName)
	c.Ready = d.Rec != nil && d.Rec.UID == m.UID && d.Rec.Intent == record.IntentApply && !(d.Rec.Paused && (f.Paused || !f.SecretsLost)) &&
		o.Rec != nil && o.Rec.UID == m.UID && inPlace(o.Rec) && seal.ValidRecipient(v.Recipient(m.ClusterID))
	c.Capacity, c.Fresh = v.Capacity(m.ClusterID)
	if rec, ok := v.Jobs.Reserved.Lookup(m.ClusterID); ok {
		c.Promised = promisesOf(rec.Rec.Jobs)
	}
	return d.Rev
}

// inPlace says whether some generation of a replica is there to take jobs.
func inPlace(o *record.Observed) bool {
	switch o.Phase {
	case record.PhaseReady:
		return true
	case record.PhaseDrifted, record.PhaseApplying:
		return o.Applied() > 0 // its syncer claims nothing before
	}
	return false
}

// absent says whether the syncer of a replica claims nothing for it now: something else is ordered of it, OSCAR cannot read it,
// or it was never seen in place.
func absent(d *record.Desired, o *record.Observed) bool {
	if d.Intent != record.IntentApply || o == nil || o.UID != d.UID || o.Phase == record.PhaseWedged {
		return true
	}
	return !inPlace(o) && o.Applied() == 0
}

func roomOf(r delegation.Request) record.Room {
	return record.Room{Millicores: r.CPU, Bytes: r.Memory, GPUs: r.GPU}
}

func promisesOf(list []record.Promise) []delegation.Promise {
	out := make([]delegation.Promise, len(list))
	for i, p := range list {
		out[i] = delegation.Promise{Request: view.RequestOf(p.Room), Count: p.Count}
	}
	return out
}

// SnapshotFor is the input of the choice for one job. It marks the members in avoid as visited.
//
// Where it was before, and how often it was handed over, keep a job from members only while it is to be
// handed over: so it does not go round. One that is queued for another reason has no place, and begins
// anew where it came in.
func (fl *Candidates) SnapshotFor(j *record.Job, avoid []string) delegation.Snapshot {
	out := fl.snapshot
	out.Seed = delegation.SeedOf(j.Job, j.Attempt+1)
	var visited []string
	if j.Frozen != nil {
		out.From, out.Hops, visited = j.Frozen.Where(), j.Hops, j.Visited
	}
	out.Candidates = slices.Clone(out.Candidates)
	read := readBy(fl.reads && j.BucketEvent, fl.storageAt(j))
	for i := range out.Candidates {
		c := &out.Candidates[i]
		c.Entry = c.URL == "" && c.Cluster == j.Cluster && c.Service == j.Service
		if c.URL == "" {
			c.Inputs, c.InputsWhy = read(fl.storage[i])
			if c.Inputs == delegation.InputsReadable && !fl.byOwner && needsOwner(j, fl.storage[i]) {
				c.Inputs, c.InputsWhy = delegation.InputsUnreadable, notByOwner
			}
		}
		if c.Entry && j.Frozen == nil {
			out.From = c.Place()
		}
		c.Visited = slices.Contains(visited, c.Cluster) && c.URL == "" || slices.Contains(avoid, c.Place())
	}
	return out
}

// choose picks a member for a job, and returns its input. A member that has refused the job is
// chosen again only when no other can take it now. The last attempt, after which the job would be parked,
// waits for another one that is only full.
func (fl *Candidates) choose(j *record.Job) (delegation.Snapshot, delegation.Decision) {
	avoid := j.RefusedAt()
	s := fl.SnapshotFor(j, avoid)
	d := delegation.Choose(s)
	if d.Chosen == "" && len(avoid) > 0 && (j.Tries < maxTries-1 || !fl.waitsForRoom(d)) {
		s = fl.SnapshotFor(j, nil)
		d = delegation.Choose(s)
	}
	return s, d
}

// waitsForRoom says whether a member could take a job if less ran there.
func (fl *Candidates) waitsForRoom(d delegation.Decision) bool {
	for i, verdict := range d.Verdicts {
		if full := verdict.Why == delegation.WhyNoRoom || verdict.Why == delegation.WhyNoGPU; !full || fl.nodes[i] == nil {
			continue
		}
		var empty delegation.Capacity
		for _, n := range fl.nodes[i].Nodes {
			if n.Status == record.NodeReady {
				empty.Nodes = append(empty.Nodes, delegation.Request{CPU: n.CPU.Allocatable, Memory: n.Memory.Allocatable, GPU: n.GPU.Allocatable})
			}
		}
		if empty.Fits(nil, fl.snapshot.Request) {
			return true
		}
	}
	return false
}
