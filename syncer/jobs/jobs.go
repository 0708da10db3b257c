package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/internal/signal"
	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// The limits of jobs.
const (
	// claimAhead is how many attempts are claimed and not yet submitted, at most; one owner
	// has half of them, see mayClaim. What is not claimed the control plane may still give to another cluster.
	claimAhead = 200
	// batchSize is how many attempts are decided upon together.
	batchSize = 4096
	// maxDeletes is how many DELETEs of Jobs are under way at the same time.
	maxDeletes = 2
)

// Jobs makes the attempts that are assigned to the cluster. One goroutine decides and
// writes the reports, for as many attempts at once as there are; calls of OSCAR run
// beside it.
type Jobs struct {
	cfg     Config
	deps    Deps
	session *session.Session
	lister  *Lister
	// replicas are those that jobs were looked at for.
	replicas replicas
	// due holds the attempts to decide upon, as <job>.<attempt>, and listings the
	// services whose Jobs are to be listed.
	due      *worker.Worker[string]
	listings *worker.Worker[string]
	calls    sync.WaitGroup
	// epochs is told when another one may have begun.
	epochs signal.Signal

	mu       sync.Mutex
	attempts map[string]*attempt
	services map[string]*serviceJobs
	slots    admission
	epoch    epochSeen
	// retry is the pause after a write that etcd did not take.
	retry time.Duration
}

// epochSeen is the epoch of the last round, nil before the first, and when this session first
// saw it; zero while there was no other.
type epochSeen struct {
	name    *string
	renewed time.Time
}

// New starts nothing.
func New(now *session.Session, lister *Lister, cfg Config, deps Deps) *Jobs {
	deps.Process.begin(now.Lease.CreateRevision())
	j := &Jobs{
		cfg: cfg, deps: deps, session: now, lister: lister,
		epochs:   signal.New(),
		attempts: map[string]*attempt{},
		services: map[string]*serviceJobs{},
	}
	j.due = worker.New(worker.Config[string]{HandleAll: j.reconcile, Most: batchSize})
	j.listings = worker.New(worker.Config[string]{Handle: j.list})
	return j
}

// Run works until ctx ends. Then it waits for the calls under way and reports what
// came of them.
func (j *Jobs) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	beside.Go(func() { j.listings.Run(ctx) })
	beside.Go(func() { j.inventory(ctx) })
	j.due.Run(ctx)
	j.calls.Wait()
	beside.Wait()
	j.last(ctx)
	return context.Cause(ctx)
}

// Changed decides anew about an attempt whose assignment has changed.
func (j *Jobs) Changed(ref record.Ref) { j.due.Add(ref.Name + "." + ref.Rest) }

// ServiceChanged decides anew about all attempts of a service.
func (j *Jobs) ServiceChanged(service string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.services[service]; s != nil {
		for key := range s.attempts {
			j.due.Add(key)
		}
	}
}

// ClusterChanged decides anew about everything: the cluster's own record has changed.
func (j *Jobs) ClusterChanged() {
	j.epochs.Send()
	j.mu.Lock()
	defer j.mu.Unlock()
	for key := range j.attempts {
		j.due.Add(key)
	}
}

// Unfinished counts the attempts at a service that OSCAR may have, and whose end was
// not reported. A DELETE of the service would end them, or hide how they ended.
func (j *Jobs) Unfinished(service string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.services[service]
	if s == nil {
		return 0
	}
	n := 0
	for _, a := range s.attempts {
		if a.slot || a.open() {
			n++
		}
	}
	return n
}

// reconcile decides about attempts and does what was decided.
func (j *Jobs) reconcile(ctx context.Context, keys []string) {
	view := j.session.Mirror.Snapshot()
	s, err := j.view(view)
	if err != nil {
		return // the session is about to end
	}
	j.mu.Lock()
	j.inNewEpoch(s)
	var changes []*change
	for _, key := range keys {
		if a := j.refresh(view, key); a != nil {
			changes = j.decideJob(ctx, s, a, changes)
		}
	}
	changes = j.admit(ctx, s, view, changes)
	j.mu.Unlock()
	for _, part := range batches(changes) {
		j.commit(ctx, s, part)
	}
}

// inNewEpoch has the reports read anew when the store was restored: it may have
// forgotten what we have written last. It needs mu.
func (j *Jobs) inNewEpoch(s *clusterView) {
	if j.epoch.name != nil && *j.epoch.name != s.Epoch {
		j.epoch.renewed = s.now
		for key, a := range j.attempts {
			a.former, a.stale = s.now, true
			j.due.Add(key)
		}
	}
	epoch := s.Epoch
	j.epoch.name = &epoch
}

// decideJob decides about one attempt. It needs mu.
func (j *Jobs) decideJob(ctx context.Context, s *clusterView, a *attempt, changes []*change) []*change {
	if a.memory.busy || a.queued {
		return changes
	}
	decision := plan(j.situationOf(s, a))
	if a.slot && decision.step != stepBegin {
		j.giveSlot(a)
	}
	a.looking = time.Time{}
	switch decision.step {
	case stepRest:
	case stepClaim:
		a.queued = true
		j.slots.claimable.add(a.tenant, a.key)
	case stepBegin, stepPost:
		if decision.step == stepBegin && a.opened != nil {
			return append(changes, j.change(s, a, decision))
		}
		a.queued = true
		j.slots.ready.add(a.tenant, a.key)
	case stepLook:
		a.looking = s.now
		j.listSoon(a.service)
	case stepDelete, stepRemove:
		if j.slots.deleting >= maxDeletes {
			j.due.AddAfter(a.key, j.cfg.RetryPause)
			break
		}
		j.slots.deleting++
		a.memory.busy = true
		end := j.deleteJob
		if decision.step == stepRemove {
			end = j.remove
		}
		j.calls.Go(func() { end(ctx, a) })
	case stepHold:
		a.memory.busy = true
		j.calls.Go(func() { j.hold(ctx, a) })
	case stepReport:
		return append(changes, j.change(s, a, decision))
	}
	if decision.after > 0 {
		j.due.AddAfter(a.key, decision.after)
	}
	return changes
}

// finished notes the outcome of a call, gives its slot free and decides anew.
func (j *Jobs) finished(a *attempt, note func(m *memory)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	note(&a.memory)
	a.memory.busy = false
	if a.opened == nil {
		j.giveSlot(a)
	}
	j.due.Add(a.key)
}

// errNotOurs says that an attempt is not ours to post at this moment.
var errNotOurs = errors.New("the session, the assignment or the service has changed")
