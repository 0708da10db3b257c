package syncer

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// The limits of the desk.
const (
	// claimAhead is how many attempts are claimed and not yet submitted, at most; one owner
	// has half of them. What is not claimed the control plane may still give to somebody else.
	claimAhead = 200
	// turnSize is how many attempts are decided upon together.
	turnSize = 4096
	// jobDeletes is how many DELETEs of Jobs are under way at the same time.
	jobDeletes = 2
)

// desk makes the attempts that are assigned to the cluster. One goroutine decides and
// writes the reports, for as many attempts at once as there are; calls of OSCAR run
// beside it.
type desk struct {
	*term
	// due holds the attempts to decide upon, as <job>.<attempt>, and listings the
	// services whose Jobs are to be listed.
	due      workqueue.TypedDelayingInterface[string]
	listings workqueue.TypedDelayingInterface[string]
	calls    sync.WaitGroup
	// epochs is told when another one may have begun.
	epochs chan struct{}

	mu       sync.Mutex
	attempts map[string]*attempt
	services map[string]*jobService
	// claimable and ready are those that wait for their turn.
	claimable, ready jobTurns
	// claimed counts the reports that say so, posting the slots that are taken.
	claimed, posting jobSlots
	deleting         int
	// epoch is the one of the last turn, nil before the first, and renewed is when this
	// term first saw that one; zero while there was no other.
	epoch   *string
	renewed time.Time
	// retry is the pause after a write that etcd did not take.
	retry time.Duration
}

// attempt is one attempt of a job.
type attempt struct {
	key     string
	job     string
	number  int
	service string
	// turn is whose it is where attempts take turns.
	turn jobTurn
	// assignment is as of revision; nil when it is gone.
	assignment *record.Assignment
	revision   int64
	report     *record.JobReport
	memory     jobMemory
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

func newDesk(t *term) *desk {
	return &desk{
		term:     t,
		due:      workqueue.NewTypedDelayingQueue[string](),
		listings: workqueue.NewTypedDelayingQueue[string](),
		epochs:   make(chan struct{}, 1),
		attempts: map[string]*attempt{},
		services: map[string]*jobService{},
	}
}

// run works until ctx ends. Then it waits for the calls under way and reports what
// came of them.
func (d *desk) run(ctx context.Context) error {
	var beside sync.WaitGroup
	beside.Go(func() { d.lists(ctx) })
	beside.Go(func() { d.inventory(ctx) })
	stop := context.AfterFunc(ctx, func() {
		d.due.ShutDown()
		d.listings.ShutDown()
	})
	defer stop()
	for {
		keys, open := d.gather()
		if !open || ctx.Err() != nil {
			break
		}
		d.turn(ctx, keys)
		for _, key := range keys {
			d.due.Done(key)
		}
	}
	d.calls.Wait()
	beside.Wait()
	d.last(ctx)
	return context.Cause(ctx)
}

// gather waits for attempts to decide upon, and takes all that there are.
func (d *desk) gather() ([]string, bool) {
	key, shutdown := d.due.Get()
	if shutdown {
		return nil, false
	}
	keys := []string{key}
	for len(keys) < turnSize && d.due.Len() > 0 {
		if key, shutdown = d.due.Get(); shutdown {
			return nil, false
		}
		keys = append(keys, key)
	}
	return keys, true
}

// hear decides anew about an attempt whose assignment has changed.
func (d *desk) hear(ref record.Ref) { d.due.Add(ref.Name + "." + ref.Rest) }

// hearOf decides anew about all attempts of a service.
func (d *desk) hearOf(service string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.services[service]; s != nil {
		for key := range s.attempts {
			d.due.Add(key)
		}
	}
}

// hearAll decides anew about everything: the cluster's own record has changed.
func (d *desk) hearAll() {
	select {
	case d.epochs <- struct{}{}:
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.attempts {
		d.due.Add(key)
	}
}

// unfinished counts the attempts at a service that OSCAR may have, and whose end was
// not reported. A DELETE of the service would end them, or hide how they ended.
func (d *desk) unfinished(service string) int {
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

// turn decides about attempts and does what was decided.
func (d *desk) turn(ctx context.Context, keys []string) {
	view := d.session.Mirror.Snapshot()
	s, err := d.stand(view)
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
func (d *desk) inNewEpoch(s *jobStand) {
	if d.epoch != nil && *d.epoch != s.epoch {
		d.renewed = s.now
		for key, a := range d.attempts {
			a.former, a.stale = s.now, true
			d.due.Add(key)
		}
	}
	epoch := s.epoch
	d.epoch = &epoch
}

// reread takes over the report of a restored store. It needs mu.
func (d *desk) reread(view *store.MirrorView, a *attempt) {
	if !a.stale || a.memory.busy {
		return
	}
	a.stale = false
	d.countClaimed(a, -1)
	a.report, a.memory = d.reportIn(view, a.job, a.number), jobMemory{}
	d.giveSlot(a)
	d.countClaimed(a, 1)
	if a.open() {
		d.watch(a.service)
	}
}

// refresh brings an attempt up to the mirror, and drops it when nobody asks for it
// any more. It needs mu.
func (d *desk) refresh(view *store.MirrorView, key string) *attempt {
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
		a = &attempt{key: key, job: ref.Name, number: number, service: assignment.Service, report: d.reportIn(view, ref.Name, number), former: d.renewed}
		d.attempts[key] = a
		service := d.serviceOf(a.service)
		service.attempts[key] = a
		a.turn.federation = assignment.Federation
		if desired := d.replica(view, a.service).desired; desired != nil {
			a.turn.owner = desired.Owner
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
func (d *desk) reportIn(view *store.MirrorView, job string, number int) *record.JobReport {
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

func (d *desk) serviceOf(name string) *jobService {
	s := d.services[name]
	if s == nil {
		s = &jobService{attempts: map[string]*attempt{}, cancelled: map[string]bool{}}
		d.services[name] = s
	}
	return s
}

// forget drops an attempt that nobody asks for, unless a call for it is under way. It
// needs mu.
func (d *desk) forget(a *attempt) {
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

func (d *desk) giveSlot(a *attempt) {
	a.opened = nil
	if a.slot {
		a.slot = false
		d.posting.add(a.turn.owner, -1)
	}
}

// countClaimed counts an attempt that is claimed, or counts it no more. It needs mu.
func (d *desk) countClaimed(a *attempt, n int) {
	if a.report != nil && a.report.State == record.JobClaimed {
		d.claimed.add(a.turn.owner, n)
	}
}

// situation of an attempt. It needs mu.
func (d *desk) situation(s *jobStand, a *attempt) jobSituation {
	desired := s.of(a.service)
	service := d.serviceOf(a.service)
	if w := desired.desired; w != nil && w.Tombstone() && w.Jobs == jobsCancel {
		service.cancelled[w.UID] = true
	}
	session, since := d.session.Lease.CreateRevision(), d.session.Started
	if !a.former.IsZero() {
		since = a.former
		if a.report != nil && a.report.State.Posted() {
			session = 0 // what was posted then is not known to this memory
		}
	}
	return jobSituation{
		now: s.now, assignment: a.assignment, report: a.report,
		session: session, termStart: since,
		stopped: s.stopped, epoch: s.epoch, restored: s.restored,
		place: desired.place(a.assignment.UID), removalCancels: service.cancelled[a.assignment.UID],
		memory: a.memory,
		retry:  d.cfg.RetryPause, grace: d.cfg.JobGrace, resend: d.cfg.JobResend, late: d.cfg.LateWindow, pause: d.cfg.JobPoll,
		start: d.cfg.JobStart, minio: d.term.origins.MinIO(a.service),
	}
}

// decideJob decides about one attempt. It needs mu.
func (d *desk) decideJob(ctx context.Context, s *jobStand, a *attempt, changes []*jobChange) []*jobChange {
	if a.memory.busy || a.queued {
		return changes
	}
	decision := planJob(d.situation(s, a))
	if a.slot && decision.act != jobBegin {
		d.giveSlot(a)
	}
	a.looking = time.Time{}
	switch decision.act {
	case jobRest:
	case jobClaim:
		a.queued = true
		d.claimable.add(a.turn, a.key)
	case jobBegin, jobPost:
		if decision.act == jobBegin && a.opened != nil {
			return append(changes, d.change(s, a, decision))
		}
		a.queued = true
		d.ready.add(a.turn, a.key)
	case jobLook:
		a.looking = s.now
		d.listSoon(a.service)
	case jobDelete:
		if d.deleting >= jobDeletes {
			d.due.AddAfter(a.key, d.cfg.RetryPause)
			break
		}
		d.deleting++
		a.memory.busy = true
		d.calls.Go(func() { d.deleteJob(ctx, a) })
	case jobRemove:
		if d.deleting >= jobDeletes {
			d.due.AddAfter(a.key, d.cfg.RetryPause)
			break
		}
		d.deleting++
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
func (d *desk) admit(ctx context.Context, s *jobStand, view *store.MirrorView, changes []*jobChange) []*jobChange {
	claimed := jobSlots{d.claimed.taken, maps.Clone(d.claimed.of)} // with what is claimed now
	for {
		a, more := d.pop(view, &d.claimable, &claimed, claimAhead)
		if !more {
			break
		}
		if a == nil {
			continue
		}
		decision := planJob(d.situation(s, a))
		if decision.act != jobClaim {
			d.due.Add(a.key)
			continue
		}
		claimed.add(a.turn.owner, 1)
		changes = append(changes, d.change(s, a, decision))
	}
	for {
		a, more := d.pop(view, &d.ready, &d.posting, d.cfg.JobPosts)
		if !more {
			return changes
		}
		if a == nil {
			continue
		}
		decision := planJob(d.situation(s, a))
		if decision.act != jobBegin && decision.act != jobPost {
			d.due.Add(a.key)
			continue
		}
		d.posting.add(a.turn.owner, 1)
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
func (d *desk) pop(view *store.MirrorView, queue *jobTurns, slots *jobSlots, all int) (*attempt, bool) {
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
func (d *desk) finished(a *attempt, note func(m *jobMemory)) {
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
func (d *desk) lost(err error) {
	switch {
	case errors.Is(err, store.ErrSessionLost):
		d.session.Lose(session.ErrLost)
	case errors.Is(err, session.ErrNotRegistered), errors.Is(err, session.ErrOtherCluster):
		d.session.Lose(err)
	}
}
