package jobs

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/originstorage"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// The limits of the desk.
const (
	// claimAhead is how many attempts are claimed and not yet submitted, at most; one owner
	// has half of them. What is not claimed the control plane may still give to somebody else.
	claimAhead = 200
	// batchSize is how many attempts are decided upon together.
	batchSize = 4096
	// jobDeletes is how many DELETEs of Jobs are under way at the same time.
	jobDeletes = 2
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
	epochs session.Signal

	mu       sync.Mutex
	attempts map[string]*attempt
	services map[string]*jobService
	slots    admission
	epoch    epochSeen
	// retry is the pause after a write that etcd did not take.
	retry time.Duration
}

// admission is what waits to be claimed or posted, and what is.
type admission struct {
	// claimable and ready are those that wait for their turn.
	claimable, ready fairQueue
	// claimed counts the reports that say so, posting the slots that are taken.
	claimed, posting slots
	deleting         int
}

// epochSeen is the epoch of the last round, nil before the first, and when this session first
// saw it; zero while there was no other.
type epochSeen struct {
	name    *string
	renewed time.Time
}

// Config has the limits of jobs.
type Config struct {
	// Posts is how many jobs are posted at the same time, of which one owner has half.
	Posts int
	// Timeout ends the POST or DELETE of a job, and StopGrace how long one may go on after
	// the session.
	Timeout, StopGrace time.Duration
	// Poll is the shortest pause between two lists of the Jobs of one service.
	Poll time.Duration
	// Start is how long the pod of a job may be stuck before it starts; negative for ever.
	Start time.Duration
	// Grace is how long after a POST or DELETE of a job its absence from a list proves
	// nothing.
	Grace time.Duration
	// Resend is how long after the first POST of a job without an answer it is sent again,
	// and LateWindow how long an unanswered one may take effect.
	Resend, LateWindow time.Duration
	// RetryPause is the first pause after a failed write.
	RetryPause time.Duration
	// Resync is how often it is looked whether all Jobs are known after a restore.
	Resync time.Duration
}

// OSCAR is what jobs ask of OSCAR.
type OSCAR interface {
	Pages
	Submit(ctx context.Context, job manager.Submission, timeout time.Duration) error
	DeleteJob(ctx context.Context, service, name string, timeout time.Duration) error
}

// Deps is what jobs use of other parts.
type Deps struct {
	OSCAR       OSCAR
	Kube        kube.Interface
	Answers     *answers.Answers
	Definitions *definition.Cache
	Tokens      *ownertoken.Tokens
	Keys        *originstorage.Keys
	Origins     *originstorage.Watch
	Events      *Events
	Metrics     *Metrics
}

// attempt is one attempt of a job.
type attempt struct {
	key     string
	job     string
	number  int
	service string
	// tenant is whose it is where attempts take turns.
	tenant tenant
	// assignment is as of revision; nil when it is gone.
	assignment *record.Assignment
	revision   int64
	report     *record.JobReport
	memory     memory
	// queued says that it is in claimable or ready, slot that it holds a slot, and
	// deletes that a DELETE of it is under way.
	queued, slot bool
	// opened is what is to be posted, once submitting is reported.
	opened *openedJob
	// former is when the store was restored under it; zero for never. What this process
	// has done for it before that is as if another one had. stale says that its report
	// is to be read anew.
	former time.Time
	stale  bool
	// looking says that it waits for a list that was started since.
	looking time.Time
}

// jobService is what is known of the Jobs of one service.
type jobService struct {
	attempts map[string]*attempt
	// next is when it is listed again by itself, in growing pauses while nothing
	// changes; soon that it is listed as soon as that may be.
	next  time.Time
	pause time.Duration
	soon  bool
	// earliest is when that is.
	earliest time.Time
	// cancelled are lives of the service that were removed with their jobs.
	cancelled map[string]bool
}

// New starts nothing.
func New(now *session.Session, lister *Lister, cfg Config, deps Deps) *Jobs {
	d := &Jobs{
		cfg: cfg, deps: deps, session: now, lister: lister,
		epochs:   session.NewSignal(),
		attempts: map[string]*attempt{},
		services: map[string]*jobService{},
	}
	d.due = worker.New(worker.Config[string]{HandleAll: d.reconcile, Most: batchSize})
	d.listings = worker.New(worker.Config[string]{Handle: d.list})
	return d
}

// Run works until ctx ends. Then it waits for the calls under way and reports what
// came of them.
func (d *Jobs) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	beside.Go(func() { d.listings.Run(ctx) })
	beside.Go(func() { d.inventory(ctx) })
	d.due.Run(ctx)
	d.calls.Wait()
	beside.Wait()
	d.last(ctx)
	return context.Cause(ctx)
}

// Changed decides anew about an attempt whose assignment has changed.
func (d *Jobs) Changed(ref record.Ref) { d.due.Add(ref.Name + "." + ref.Rest) }

// ServiceChanged decides anew about all attempts of a service.
func (d *Jobs) ServiceChanged(service string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.services[service]; s != nil {
		for key := range s.attempts {
			d.due.Add(key)
		}
	}
}

// ClusterChanged decides anew about everything: the cluster's own record has changed.
func (d *Jobs) ClusterChanged() {
	d.epochs.Ring()
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.attempts {
		d.due.Add(key)
	}
}

// Unfinished counts the attempts at a service that OSCAR may have, and whose end was
// not reported. A DELETE of the service would end them, or hide how they ended.
func (d *Jobs) Unfinished(service string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.services[service]
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

// open says whether OSCAR may have the Job, and has more to say of it.
func (a *attempt) open() bool {
	return a.report != nil && a.report.State.Posted() && !a.report.State.Ended()
}

// reconcile decides about attempts and does what was decided.
func (d *Jobs) reconcile(ctx context.Context, keys []string) {
	view := d.session.Mirror.Snapshot()
	s, err := d.view(view)
	if err != nil {
		return // the term is about to end
	}
	d.mu.Lock()
	d.inNewEpoch(s)
	var changes []*jobChange
	for _, key := range keys {
		if a := d.refresh(view, key); a != nil {
			changes = d.decideJob(ctx, s, a, changes)
		}
	}
	changes = d.admit(ctx, s, view, changes)
	d.mu.Unlock()
	for _, part := range batches(changes) {
		d.commit(ctx, s, part)
	}
}

// inNewEpoch has the reports read anew when the store was restored: it may have
// forgotten what we have written last. It needs mu.
func (d *Jobs) inNewEpoch(s *clusterView) {
	if d.epoch.name != nil && *d.epoch.name != s.epoch {
		d.epoch.renewed = s.now
		for key, a := range d.attempts {
			a.former, a.stale = s.now, true
			d.due.Add(key)
		}
	}
	epoch := s.epoch
	d.epoch.name = &epoch
}

// reread takes over the report of a restored store. It needs mu.
func (d *Jobs) reread(view *store.MirrorView, a *attempt) {
	if !a.stale || a.memory.busy {
		return
	}
	a.stale = false
	d.countClaimed(a, -1)
	a.report, a.memory = d.reportIn(view, a.job, a.number), memory{}
	d.giveSlot(a)
	d.countClaimed(a, 1)
	if a.open() {
		d.watch(a.service)
	}
}

// refresh brings an attempt up to the mirror, and drops it when nobody asks for it
// any more. It needs mu.
func (d *Jobs) refresh(view *store.MirrorView, key string) *attempt {
	ref := record.ParseKey(record.AssignmentsPrefix(d.session.ID) + key)
	number := ref.AttemptOf()
	if number == 0 {
		return nil
	}
	a := d.attempts[key]
	kv, ok := view.KV(record.AssignmentKey(d.session.ID, ref.Name, number))
	if !ok {
		if a != nil {
			a.assignment = nil
			d.forget(a)
		}
		return nil
	}
	if a != nil {
		d.reread(view, a)
		if a.revision == kv.ModRevision && a.assignment != nil {
			return a
		}
	}
	assignment, err := store.Decode[record.Assignment](kv)
	if err == nil && (assignment.Job != ref.Name || assignment.Attempt != number || assignment.Service == "") {
		err = &store.CorruptError{Key: kv.Key, Err: errors.New("it is not what its key says")}
	}
	if err != nil {
		d.session.Log.Error("assignment cannot be read; the job is left alone", "error", err)
		return nil
	}
	if a == nil {
		// One that a restore brought back, or this term has never met, counts as former:
		// its report may name our session, and nothing is remembered of its POST.
		a = &attempt{key: key, job: ref.Name, number: number, service: assignment.Service, report: d.reportIn(view, ref.Name, number), former: d.epoch.renewed}
		d.attempts[key] = a
		service := d.serviceOf(a.service)
		service.attempts[key] = a
		a.tenant.federation = assignment.Federation
		if desired := d.replicaIn(view, a.service).desired; desired != nil {
			a.tenant.owner = desired.Owner
		}
		d.countClaimed(a, 1)
		if a.open() {
			d.watch(a.service)
		}
	}
	a.assignment, a.revision = assignment, kv.ModRevision
	return a
}

// reportIn is our last report about an attempt, or nil. One that cannot be read says
// that OSCAR may have been asked: it is taken for one of a process that died then.
func (d *Jobs) reportIn(view *store.MirrorView, job string, number int) *record.JobReport {
	kv, ok := view.KV(record.JobReportKey(d.session.ID, job, number))
	if !ok {
		return nil
	}
	r, err := store.Decode[record.JobReport](kv)
	if err != nil {
		d.session.Log.Error("own report of a job cannot be read; OSCAR is asked what it knows", "error", err)
		return &record.JobReport{V: record.Version, State: record.JobSubmitting}
	}
	return r
}

func (d *Jobs) serviceOf(name string) *jobService {
	s := d.services[name]
	if s == nil {
		s = &jobService{attempts: map[string]*attempt{}, cancelled: map[string]bool{}}
		d.services[name] = s
	}
	return s
}

// forget drops an attempt that nobody asks for, unless a call for it is under way. It
// needs mu.
func (d *Jobs) forget(a *attempt) {
	if a.memory.busy {
		return
	}
	d.giveSlot(a)
	d.countClaimed(a, -1)
	delete(d.attempts, a.key)
	if s := d.services[a.service]; s != nil {
		delete(s.attempts, a.key)
		if len(s.attempts) == 0 {
			delete(d.services, a.service)
		}
	}
}

func (d *Jobs) giveSlot(a *attempt) {
	a.opened = nil
	if a.slot {
		a.slot = false
		d.slots.posting.add(a.tenant.owner, -1)
	}
}

// countClaimed counts an attempt that is claimed, or counts it no more. It needs mu.
func (d *Jobs) countClaimed(a *attempt, n int) {
	if a.report != nil && a.report.State == record.JobClaimed {
		d.slots.claimed.add(a.tenant.owner, n)
	}
}

// situationOf of an attempt. It needs mu.
func (d *Jobs) situationOf(s *clusterView, a *attempt) situation {
	desired := s.of(a.service)
	service := d.serviceOf(a.service)
	if w := desired.desired; w != nil && w.Tombstone() && w.Jobs == cancelJobs {
		service.cancelled[w.UID] = true
	}
	session, since := d.session.Lease.CreateRevision(), d.session.Started
	if !a.former.IsZero() {
		since = a.former
		if a.report != nil && a.report.State.Posted() {
			session = 0 // what was posted then is not known to this memory
		}
	}
	return situation{
		now: s.now, assignment: a.assignment, report: a.report,
		session: session, termStart: since,
		stopped: s.stopped, epoch: s.epoch, restored: s.restored,
		replica: desired.state(a.assignment.UID), removalCancels: service.cancelled[a.assignment.UID],
		memory: a.memory,
		retry:  d.cfg.RetryPause, grace: d.cfg.Grace, resend: d.cfg.Resend, late: d.cfg.LateWindow, pause: d.cfg.Poll,
		start: d.cfg.Start, minio: d.deps.Origins.MinIO(a.service),
	}
}

// decideJob decides about one attempt. It needs mu.
func (d *Jobs) decideJob(ctx context.Context, s *clusterView, a *attempt, changes []*jobChange) []*jobChange {
	if a.memory.busy || a.queued {
		return changes
	}
	decision := plan(d.situationOf(s, a))
	if a.slot && decision.act != jobBegin {
		d.giveSlot(a)
	}
	a.looking = time.Time{}
	switch decision.act {
	case jobRest:
	case jobClaim:
		a.queued = true
		d.slots.claimable.add(a.tenant, a.key)
	case jobBegin, jobPost:
		if decision.act == jobBegin && a.opened != nil {
			return append(changes, d.change(s, a, decision))
		}
		a.queued = true
		d.slots.ready.add(a.tenant, a.key)
	case jobLook:
		a.looking = s.now
		d.listSoon(a.service)
	case jobDelete:
		if d.slots.deleting >= jobDeletes {
			d.due.AddAfter(a.key, d.cfg.RetryPause)
			break
		}
		d.slots.deleting++
		a.memory.busy = true
		d.calls.Go(func() { d.deleteJob(ctx, a) })
	case jobRemove:
		if d.slots.deleting >= jobDeletes {
			d.due.AddAfter(a.key, d.cfg.RetryPause)
			break
		}
		d.slots.deleting++
		a.memory.busy = true
		d.calls.Go(func() { d.remove(ctx, a) })
	case jobHold:
		a.memory.busy = true
		d.calls.Go(func() { d.hold(ctx, a) })
	case jobReport:
		return append(changes, d.change(s, a, decision))
	}
	if decision.after > 0 {
		d.due.AddAfter(a.key, decision.after)
	}
	return changes
}

// admit takes those that wait, as far as there is room. Each is decided upon again. It
// needs mu.
func (d *Jobs) admit(ctx context.Context, s *clusterView, view *store.MirrorView, changes []*jobChange) []*jobChange {
	claimed := slots{d.slots.claimed.taken, maps.Clone(d.slots.claimed.of)} // with what is claimed now
	for {
		a, more := d.pop(view, &d.slots.claimable, &claimed, claimAhead)
		if !more {
			break
		}
		if a == nil {
			continue
		}
		decision := plan(d.situationOf(s, a))
		if decision.act != jobClaim {
			d.due.Add(a.key)
			continue
		}
		claimed.add(a.tenant.owner, 1)
		changes = append(changes, d.change(s, a, decision))
	}
	for {
		a, more := d.pop(view, &d.slots.ready, &d.slots.posting, d.cfg.Posts)
		if !more {
			return changes
		}
		if a == nil {
			continue
		}
		decision := plan(d.situationOf(s, a))
		if decision.act != jobBegin && decision.act != jobPost {
			d.due.Add(a.key)
			continue
		}
		d.slots.posting.add(a.tenant.owner, 1)
		a.slot, a.memory.busy = true, true
		assignment, revision := *a.assignment, a.revision
		if decision.act == jobBegin {
			d.calls.Go(func() { d.openJob(ctx, a, assignment) })
		} else {
			d.calls.Go(func() { d.repost(ctx, a, assignment, revision) })
		}
	}
}

// pop takes the next that may have a slot; nil when that is not asked for any more, false
// when there is none.
func (d *Jobs) pop(view *store.MirrorView, queue *fairQueue, slots *slots, all int) (*attempt, bool) {
	key, ok := queue.next(func(owner string) bool { return slots.may(owner, all) })
	if !ok {
		return nil, false
	}
	a := d.attempts[key]
	if a == nil {
		return nil, true
	}
	a.queued = false
	return d.refresh(view, key), true
}

// finished notes the outcome of a call, gives its slot free and decides anew.
func (d *Jobs) finished(a *attempt, note func(m *memory)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	note(&a.memory)
	a.memory.busy = false
	if a.opened == nil {
		d.giveSlot(a)
	}
	d.due.Add(a.key)
}

// errNotOurs says that an attempt is not ours to post at this moment.
var errNotOurs = errors.New("the session, the assignment or the service has changed")

// lost ends the term when an error says that it is over.
func (d *Jobs) lost(err error) {
	switch {
	case errors.Is(err, store.ErrSessionLost):
		d.session.Lose(session.ErrLost)
	case errors.Is(err, session.ErrNotRegistered), errors.Is(err, session.ErrOtherCluster):
		d.session.Lose(err)
	}
}
