package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// needs is what the definition of a federation's service says of its jobs.
type needs struct {
	generation int64
	request    delegation.Request
	weights    map[string]float64
	// reads says that an input is in minio.default: events of buckets name objects there.
	reads bool
	// byOwner says that OSCAR starts a job of it for its owner's access token.
	byOwner bool
	// broken says that it cannot be read; nothing is assigned then.
	broken bool
}

// needsCache remembers the needs of federations, which are not in the mirror.
type needsCache struct {
	mu sync.Mutex
	of map[string]*needs
}

// get gives what is remembered of a generation; nil for nothing.
func (n *needsCache) get(f *record.Federation) *needs {
	n.mu.Lock()
	defer n.mu.Unlock()
	if have := n.of[f.UID]; have != nil && have.generation == f.Generation {
		return have
	}
	return nil
}

func (n *needsCache) put(uid string, have *needs) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[string]*needs{}
	}
	n.of[uid] = have
}

// keep forgets all federations but some.
func (n *needsCache) keep(lives func(uid string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.of, func(uid string, _ *needs) bool { return !lives(uid) })
}

// needsOf reads what one pod of a federation's service asks for.
func (c *ControlPlane) needsOf(ctx context.Context, f *record.Federation) (*needs, error) {
	if have := c.needs.get(f); have != nil {
		return have, nil
	}
	s, err := c.submitted(ctx, f)
	if err != nil {
		return nil, err
	}
	out, err := needsIn(f, s)
	if err != nil {
		return nil, err
	}
	c.needs.put(f.UID, out)
	return out, nil
}

// needsIn finds the needs of a federation in its definition; errBroken when they cannot be.
func needsIn(f *record.Federation, s *oscar.Service) (*needs, error) {
	request, err := delegation.RequestOf(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	out := &needs{generation: f.Generation, request: request, reads: topology.ReadsDefault(s), byOwner: oscar.StartedByOwner(s, f.Owner)}
	if s.Federation != nil {
		out.weights = s.Federation.Weights
	}
	return out, nil
}

// errBroken says that a definition asks for what is no quantity.
var errBroken = errors.New("the definition cannot be read")

// learnNeeds reads the needs of the federations that have jobs to assign, as far as
// they are not known.
func (c *ControlPlane) learnNeeds(ctx context.Context) error {
	unknown := map[string]*record.Federation{}
	c.state.read(func(v *View) {
		learn := func(uid string) {
			if f := v.federations[uid].rec; f != nil && c.needs.get(f) == nil {
				unknown[uid] = f
			}
		}
		for uid := range v.jobs.queued {
			learn(uid)
		}
		for job, clusters := range v.jobs.offered {
			for cluster := range clusters {
				if o := v.nodes[cluster].offers[job].rec; o != nil {
					learn(o.Federation)
				}
			}
		}
	})
	feds := slices.Collect(maps.Values(unknown))
	err := c.eachSubmitted(ctx, feds, func(f *record.Federation, s *oscar.Service, err error) error {
		delete(unknown, f.UID)
		var out *needs
		if err == nil {
			out, err = needsIn(f, s)
		}
		if err != nil {
			out = c.hopeless(f, err)
		}
		c.needs.put(f.UID, out)
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range unknown {
		c.needs.put(f.UID, c.hopeless(f, store.ErrNotFound))
	}
	return nil
}

// hopeless are the needs of a federation that has gone or changed meanwhile, or whose
// definition nobody can read: others go on.
func (c *ControlPlane) hopeless(f *record.Federation, err error) *needs {
	c.cfg.Logger.Warn("jobs of a federation wait: its definition cannot be had", "federation", f.UID, "error", err)
	return &needs{generation: f.Generation, broken: true}
}

// field is a federation as jobs are chosen for it, at one revision.
type field struct {
	fed *record.Federation
	rev int64
	// held is why nothing is assigned of it now; older that only what was accepted in
	// an older epoch is held.
	held, older bool
	snapshot    delegation.Snapshot
	// members are those of the snapshot's candidates, desired the revisions of their
	// desired records, and storage what they read.
	members []record.Member
	desired []int64
	storage []memberStorage
	// reads says that events of buckets name objects in minio.default, and byOwner that
	// OSCAR starts jobs for the owner's access token.
	reads, byOwner bool
}

// field prepares the choices for a federation; false when it takes none.
func (v *View) field(uid string, need *needs) (*field, bool) {
	f, ok := v.federations[uid]
	if !ok || f.rec.Phase != record.PhaseReady || record.Strange(f.rec) != "" || need == nil || need.broken {
		return nil, false
	}
	out := &field{fed: f.rec, rev: f.rev, held: f.rec.Paused, reads: need.reads, byOwner: need.byOwner, snapshot: delegation.Snapshot{
		Policy: f.rec.Delegation, Topology: f.rec.Topology, Weights: need.weights, Request: need.request,
	}}
	for _, m := range f.rec.Members {
		candidate := delegation.Candidate{
			Cluster: m.ClusterID, Service: m.ServiceName, Coordinator: m.Coordinator, Priority: m.Priority, Weight: m.Weight,
		}
		var desired int64
		var storage memberStorage
		if m.Replica() {
			desired, storage = v.standing(m, &candidate), v.storageOf(m)
			if candidate.Alive && !v.listed(m.ClusterID) {
				out.held = true
			}
			out.older = out.older || !v.listed(m.ClusterID)
		} else {
			candidate.URL = m.URL
		}
		out.snapshot.Candidates = append(out.snapshot.Candidates, candidate)
		out.members = append(out.members, m)
		out.desired = append(out.desired, desired)
		out.storage = append(out.storage, storage)
	}
	return out, true
}

// standing fills in what is known of a replica, and answers the revision of its desired
// record.
func (v *View) standing(m record.Member, c *delegation.Candidate) int64 {
	c.Alive = v.alive(m.ClusterID)
	c.State = delegation.StateRemoving
	if reg, ok := v.clusters[m.ClusterID]; ok {
		c.State = delegation.State(reg.rec.State)
	}
	d, o := v.desired(m.ClusterID, m.ServiceName), v.observed(m.ClusterID, m.ServiceName)
	c.Ready = d.rec != nil && d.rec.UID == m.UID && d.rec.Intent == record.IntentApply && !d.rec.Paused &&
		o.rec != nil && o.rec.UID == m.UID && inPlace(o.rec) && seal.ValidRecipient(v.recipient(m.ClusterID))
	c.Capacity, c.Fresh = v.capacity(m.ClusterID)
	if rec, ok := v.jobs.reserved[m.ClusterID]; ok {
		c.Promised = promisesOf(rec.rec.Jobs)
	}
	return d.rev
}

// inPlace says whether some generation of a replica is there to take jobs.
func inPlace(o *record.Observed) bool {
	switch o.Phase {
	case record.PhaseReady, record.PhaseDrifted:
		return true
	case record.PhaseApplying:
		return o.Applied() > 0
	}
	return false
}

func promisesOf(list []record.Promise) []delegation.Promise {
	out := make([]delegation.Promise, len(list))
	for i, p := range list {
		out[i] = delegation.Promise{Request: delegation.Request{CPU: p.Millicores, Memory: p.Bytes, GPU: p.GPUs}, Count: p.Count}
	}
	return out
}

// snapshotFor is what the choice for one job is made from. Places that the job was
// refused at are left out as long as there is another one.
func (fl *field) snapshotFor(j *record.Job, avoid []string) delegation.Snapshot {
	out := fl.snapshot
	out.Hops, out.Seed = j.Hops, delegation.SeedOf(j.Job, j.Attempt+1)
	if j.Frozen != nil {
		out.From = j.Frozen.Where()
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
		c.Visited = slices.Contains(j.Visited, c.Cluster) && c.URL == "" || slices.Contains(avoid, c.Place())
	}
	return out
}

// refusedAt lists the places that have refused a job since it was accepted or
// replayed.
func refusedAt(j *record.Job) []string {
	var out []string
	left := j.Tries
	for _, a := range slices.Backward(j.Past) {
		if left == 0 {
			break
		}
		if a.State == record.JobRefused {
			out = append(out, a.Place)
			left--
		}
	}
	return out
}

// choose picks a place for a job, and says from what. A place that has refused it is
// taken again only when there is no other.
func (fl *field) choose(j *record.Job) (delegation.Snapshot, delegation.Decision) {
	avoid := refusedAt(j)
	s := fl.snapshotFor(j, avoid)
	d := delegation.Choose(s)
	if d.Chosen == "" && len(avoid) > 0 {
		s = fl.snapshotFor(j, nil)
		d = delegation.Choose(s)
	}
	return s, d
}
