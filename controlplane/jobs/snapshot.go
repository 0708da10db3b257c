package jobs

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
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Needs is what the definition of a federation's service says of its jobs.
type Needs struct {
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
	of map[string]*Needs
}

// get returns the cached needs of a generation; nil for none.
func (n *needsCache) get(f *record.Federation) *Needs {
	n.mu.Lock()
	defer n.mu.Unlock()
	if have := n.of[f.UID]; have != nil && have.generation == f.Generation {
		return have
	}
	return nil
}

func (n *needsCache) put(uid string, have *Needs) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[string]*Needs{}
	}
	n.of[uid] = have
}

// keep drops the federations that are gone.
func (n *needsCache) keep(lives func(uid string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.of, func(uid string, _ *Needs) bool { return !lives(uid) })
}

// NeedsOf reads what one pod of a federation's service asks for.
func (c *Controller) NeedsOf(ctx context.Context, f *record.Federation) (*Needs, error) {
	if have := c.needs.get(f); have != nil {
		return have, nil
	}
	s, err := c.federations.Definition(ctx, f)
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

// needsIn reads the needs of a federation from its definition; errBroken when it cannot.
func needsIn(f *record.Federation, s *oscar.Service) (*Needs, error) {
	request, err := delegation.RequestOf(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	out := &Needs{generation: f.Generation, request: request, reads: topology.ReadsDefault(s), byOwner: oscar.StartedByOwner(s, f.Owner)}
	if s.Federation != nil {
		out.weights = s.Federation.Weights
	}
	return out, nil
}

// errBroken says that a definition requests an invalid quantity.
var errBroken = errors.New("the definition cannot be read")

// learnNeeds reads the needs that are not cached, of federations in a scope that have jobs to assign.
func (c *Controller) learnNeeds(ctx context.Context, s scope) error {
	unknown := map[string]*record.Federation{}
	c.state.Read(func(v *view.View) {
		learn := func(uid string) {
			if f := v.Federations.Get(uid).Rec; f != nil && c.needs.get(f) == nil {
				unknown[uid] = f
			}
		}
		for uid := range s.of {
			learn(uid)
		}
		if s.all {
			for uid := range v.Jobs.InFlight.Keys() {
				learn(uid) // also of jobs that run: they count in the shares
			}
		}
		for job := range v.Jobs.Offered.Keys() {
			for cluster := range v.Jobs.Offered.Of(job) {
				if o := v.Nodes.Get(cluster).Offers.Get(job).Rec; o != nil {
					learn(o.Federation)
				}
			}
		}
	})
	feds := slices.Collect(maps.Values(unknown))
	err := c.federations.EachDefinition(ctx, feds, func(f *record.Federation, s *oscar.Service, err error) error {
		delete(unknown, f.UID)
		var out *Needs
		if err == nil {
			out, err = needsIn(f, s)
		}
		if err != nil {
			out = c.brokenNeeds(f, err)
		}
		c.needs.put(f.UID, out)
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range unknown {
		c.needs.put(f.UID, c.brokenNeeds(f, store.ErrNotFound))
	}
	return nil
}

// brokenNeeds are the needs of a federation that has gone or changed meanwhile, or whose
// definition cannot be read. Other federations go on.
func (c *Controller) brokenNeeds(f *record.Federation, err error) *Needs {
	c.cfg.Logger.Warn("jobs of a federation wait: its definition cannot be had", "federation", f.UID, "error", err)
	return &Needs{generation: f.Generation, broken: true}
}

// Candidates are the members of a federation that a job can go to, at one revision.
type Candidates struct {
	fed *record.Federation
	rev int64
	// held says that none of its jobs is assigned now; older that jobs of an older epoch are
	// held.
	held, older bool
	snapshot    delegation.Snapshot
	// Members are those of the snapshot's candidates, desired the revisions of their
	// desired records, and storage the storage that they read.
	Members []record.Member
	desired []int64
	storage []memberStorage
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
			desired, storage = fillReplica(v, m, &candidate), storageOf(v, m)
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
	}
	return out, true
}

// fillReplica fills in the state of a replica, and returns the revision of its desired record.
func fillReplica(v *view.View, m record.Member, c *delegation.Candidate) int64 {
	c.Alive = v.Alive(m.ClusterID)
	c.State = delegation.StateRemoving
	if reg, ok := v.Clusters.Lookup(m.ClusterID); ok {
		c.State = delegation.State(reg.Rec.State)
	}
	d, o := v.Desired(m.ClusterID, m.ServiceName), v.Observed(m.ClusterID, m.ServiceName)
	c.Ready = d.Rec != nil && d.Rec.UID == m.UID && d.Rec.Intent == record.IntentApply && !d.Rec.Paused &&
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

// SnapshotFor is the input of the choice for one job. It marks the members in avoid as visited.
func (fl *Candidates) SnapshotFor(j *record.Job, avoid []string) delegation.Snapshot {
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

// choose picks a member for a job, and returns its input. A member that has refused the job is
// chosen again only when there is no other.
func (fl *Candidates) choose(j *record.Job) (delegation.Snapshot, delegation.Decision) {
	avoid := j.RefusedAt()
	s := fl.SnapshotFor(j, avoid)
	d := delegation.Choose(s)
	if d.Chosen == "" && len(avoid) > 0 {
		s = fl.SnapshotFor(j, nil)
		d = delegation.Choose(s)
	}
	return s, d
}
