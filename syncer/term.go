package syncer

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"

	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/jobs"
	"github.com/oscarfed/oscarfed/syncer/offers"
	"github.com/oscarfed/oscarfed/syncer/originstorage"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// deciders is how many services are decided upon at the same time. They only
// read, and share their lists.
const deciders = 8

// term is the work within one session.
type term struct {
	*Syncer
	session *session.Session

	answers *answers.Answers

	// decisions and writes hold service names. Whoever works on a name has
	// claimed it.
	decisions workqueue.TypedDelayingInterface[string]
	writes    workqueue.TypedInterface[string]
	// writing says that a write is under way.
	writing atomic.Bool
	retries workqueue.TypedRateLimiter[string]
	// stale paces those that were decided on what is no longer so.
	stale workqueue.TypedRateLimiter[string]
	// deadlines are when those of services were first seen.
	deadlines clock.Sightings
	tokens    *ownertoken.Tokens
	claims    *claims
	desk      *jobs.Jobs
	// counts are of jobs that run.
	counts *jobs.Counts
	// measured is closed when it was tried once to tell what the cluster has free.
	measured chan struct{}
	// capacityWritten is when what is free was written last; only capacities uses it.
	capacityWritten time.Time
	offers          *offers.Offers
	// origins watches the storage of origins.
	origins *originstorage.Watch

	mu sync.Mutex
	// periodic holds the names that the next decision looks at as a resync, and
	// heard when there was last reason to look at a name.
	periodic map[string]bool
	heard    map[string]time.Time
}

func newTerm(s *Syncer, now *session.Session) *term {
	t := &term{
		Syncer:    s,
		session:   now,
		claims:    newClaims(),
		measured:  make(chan struct{}),
		periodic:  map[string]bool{},
		heard:     map[string]time.Time{},
		decisions: workqueue.NewTypedDelayingQueue[string](),
		retries:   workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, 15*time.Second),
		stale:     workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, 5*time.Second),
	}
	t.tokens = ownertoken.New(now, s.tokens, s.cfg.Tokens, s.cfg.HolderPatience, t.tokenCame)
	t.writes = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Queue: &priority{desired: t.desiredByOurClock, now: t.session.Now},
	})
	return t
}

// run works until ctx ends. The write under way is finished first.
func (t *term) run(ctx context.Context) error {
	// Also when it ends before anybody works: each queue has a goroutine of its own.
	defer t.shutDown()
	t.answers = answers.New(ctx, t.session, t.cfg.OSCAR, t.cfg.Kube, t.answersAgain)
	defer t.answers.Wait()
	t.origins = originstorage.NewWatch(ctx, t.session, t.Syncer.origins, t.cfg.OriginLook, func(service string) bool { return t.desk.Unfinished(service) > 0 })
	t.offers = offers.New(t.session, offers.Config{Keep: t.cfg.KeepJobs, After: t.cfg.RescheduleAfter}, t.cfg.Kube, t.offerMetrics)
	lister := jobs.NewLister(t.session, t.answers, t.cfg.Kube, t.cfg.OSCAR)
	t.counts = jobs.NewCounts(t.session, lister, func(service string) { t.decisions.Add(service) })
	t.desk = jobs.New(t.session, lister, t.cfg.jobs(), jobs.Deps{
		OSCAR: t.cfg.OSCAR, Kube: t.cfg.Kube, Answers: t.answers, Definitions: t.specs, Tokens: t.tokens,
		Keys: t.Syncer.origins, Origins: t.origins, Events: &t.events, Metrics: t.jobMetrics,
	})

	// From this revision on, nobody else has written to our OSCAR.
	if err := t.session.Mirror.Wait(ctx, t.session.Lease.CreateRevision()); err != nil {
		return err
	}
	if _, err := t.session.Serves(t.session.Mirror.Snapshot().KV(record.DesiredClusterKey(t.session.ID))); err != nil {
		return err
	}
	t.assumeForPredecessors()
	t.setReady(true)
	defer t.setReady(false)
	defer t.Syncer.tokens.Begin(t.tokens)()

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return t.follow(ctx) })
	group.Go(func() error { return t.resyncs(ctx) })
	group.Go(func() error { t.probe(ctx); return nil })
	group.Go(func() error { t.listen(ctx); return nil })
	group.Go(func() error { return t.desk.Run(ctx) })
	if t.cfg.Relay != nil {
		group.Go(func() error { t.cfg.Relay.Run(ctx, site{t}); return nil })
	}
	group.Go(func() error { t.counts.Run(ctx); return nil })
	group.Go(func() error { t.capacities(ctx); return nil })
	group.Go(func() error { t.offers.Run(ctx); return nil })
	group.Go(func() error { t.origins.Run(ctx); return nil })
	for range deciders {
		group.Go(func() error { t.work(ctx, t.decisions, t.decide); return nil })
	}
	group.Go(func() error { t.work(ctx, t.writes, t.write); return nil })
	group.Go(func() error { t.tokens.Run(ctx); return nil })
	group.Go(func() error {
		<-ctx.Done()
		t.shutDown()
		return context.Cause(ctx)
	})
	err := group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// shutDown ends all queues, and with them the workers. It may be called again.
func (t *term) shutDown() {
	t.decisions.ShutDown()
	t.writes.ShutDown()
}

// assumeForPredecessors notes for each order without an outcome that an earlier
// process may have sent its POST a moment before it died. What is still being
// prepared was not ordered yet.
func (t *term) assumeForPredecessors() {
	view := t.session.Mirror.Snapshot()
	for kv := range view.Prefix(record.DesiredServicesPrefix(t.session.ID)) {
		d, err := store.Decode[record.Desired](kv)
		if err != nil || d.Intent == record.IntentPrepare {
			continue
		}
		name := record.ParseKey(kv.Key).Name
		o := t.session.Observed(view, name, d.UID)
		if o == nil || o.Phase == record.PhasePending || o.Phase == record.PhasePrepared || o.Phase == record.PhaseApplying {
			t.notes.assume(name, t.session.Started)
		}
	}
}

// desiredByOurClock is what is desired of a name, with its deadline by our clock.
func (t *term) desiredByOurClock(name string) *record.Desired {
	d := t.session.Desired(name)
	if d == nil || d.Deadline == nil {
		return d
	}
	out := *d
	at := record.At(t.due(name, d))
	out.Deadline = &at
	return &out
}

// due is when the deadline of a desired record passes by our clock: as long after it was
// first seen here as it has.
func (t *term) due(name string, d *record.Desired) time.Time {
	since := t.deadlines.Since(name, d.UID+" "+d.Deadline.String(), t.session.Now())
	if d.DeadlineS <= 0 {
		return d.Deadline.Time // an older control plane does not say how long it has
	}
	return since.Add(time.Duration(d.DeadlineS) * time.Second)
}

// standing enters what holds for the whole cluster.
func (v *sight) standing(now session.Standing) {
	v.stopped, v.epoch, v.restored = now.Stopped, now.Epoch, now.Restored
}

// follow turns changes of the mirror into work.
func (t *term) follow(ctx context.Context) error {
	feed := t.session.Mirror.Feed()
	defer feed.Close()
	for {
		keys, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		view, now := t.session.Mirror.Snapshot(), t.session.Now()
		t.settleLedger(view)
		for _, key := range keys {
			switch ref := record.ParseKey(key); ref.Kind {
			case record.KindDesiredService:
				if word := record.Strange(session.DesiredIn(view, key)); word != "" {
					t.session.Log.Error("a newer control plane asks for what this syncer does not know; the service is left as it is", "service", ref.Name, "word", word)
				}
				t.hear(ref.Name, now)
				t.decisions.Add(ref.Name)
				t.tokens.ReconcileServed(view, ref.Name)
				t.desk.ServiceChanged(ref.Name)
				t.offers.ServiceChanged(ref.Name)
			case record.KindAssignment:
				t.desk.Changed(ref)
			case record.KindOffer, record.KindOfferAnswer:
				t.offers.Changed(view, ref.Name)
			case record.KindHold, record.KindHolding, record.KindTokenAsk, record.KindGranted, record.KindWant, record.KindGrant:
				t.tokens.Changed(ref.Name)
			case record.KindObservedService, record.KindAsk:
				t.decisions.Add(ref.Name)
				t.desk.ServiceChanged(ref.Name)
			case record.KindTokens:
				t.tokens.Arrived(view, ref.Name)
			case record.KindDesiredCluster:
				t.noteEpoch(view)
				for kv := range view.Prefix(record.DesiredServicesPrefix(t.session.ID)) {
					t.decisions.Add(record.ParseKey(kv.Key).Name)
				}
				t.tokens.ReconcileAll(view)
				t.desk.ClusterChanged()
				t.offers.All(view)
			}
		}
	}
}

// tokenCame looks anew at the services of a federation: who has refused for want of
// its owner's token votes again.
func (t *term) tokenCame(view *store.MirrorView, federation string) {
	now := t.session.Now()
	for kv := range view.Prefix(record.DesiredServicesPrefix(t.session.ID)) {
		d, err := store.Decode[record.Desired](kv)
		if err != nil || d.Federation != federation || d.Tombstone() {
			continue
		}
		name := record.ParseKey(kv.Key).Name
		t.mu.Lock()
		t.periodic[name] = true
		t.mu.Unlock()
		t.hear(name, now)
		t.decisions.Add(name)
	}
}

// noteEpoch tells when the store is of another control plane. What stands here then
// is held: it has marks that nobody desires. It ends the term when the registration
// is not the one that we are for, or not any more.
func (t *term) noteEpoch(view *store.MirrorView) {
	c, err := t.session.Serves(view.KV(record.DesiredClusterKey(t.session.ID)))
	switch {
	case errors.Is(err, session.ErrNotRegistered), errors.Is(err, session.ErrOtherCluster), errors.Is(err, session.ErrOutdated):
		t.session.Lose(err)
		return
	case err != nil:
		t.session.Log.Error("desired cluster cannot be read", "error", err)
		return
	}
	if before := t.registration.Swap(c); before != nil && (before.ControlPlane != c.ControlPlane || before.Epoch != c.Epoch) {
		t.session.Log.Warn("registration of the cluster has changed", "cluster_uid", c.UID, "control_plane", c.ControlPlane, "epoch", c.Epoch)
		t.session.Compare.Ring()
	}
}

// resyncs compares everything now and then, with one list, and at once when the
// store was restored, or OSCAR answers again.
func (t *term) resyncs(ctx context.Context) error {
	for {
		if err := t.resync(ctx); err != nil && ctx.Err() == nil {
			t.session.Log.Warn("full compare not possible", "error", err)
		}
		jitter := 0.9 + 0.2*rand.Float64() //nolint:gosec // spreads load
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.session.Compare:
		case <-time.After(time.Duration(float64(t.cfg.Resync) * jitter)):
		}
	}
}

func (t *term) resync(ctx context.Context) error {
	before, began := t.session.Mirror.Snapshot(), t.session.Now()
	list, _, err := t.answers.Lists.Get(ctx, began)
	view := t.session.Mirror.Snapshot()
	wanted := map[string]bool{}
	for kv := range view.Prefix(record.DesiredServicesPrefix(t.session.ID)) {
		name := record.ParseKey(kv.Key).Name
		wanted[name] = true
		t.mu.Lock()
		t.periodic[name] = true
		t.mu.Unlock()
		t.hear(name, began)
		t.decisions.Add(name)
	}
	t.tokens.ForgetNeeds(began.Add(-3 * t.cfg.Resync))
	t.tokens.ReconcileAll(view)
	t.offers.All(view)
	t.origins.ForgetKeys(view)
	t.deadlines.Keep(func(name string) bool { return wanted[name] })
	t.notes.forget(t.session.Now(), func(name string) bool { return wanted[name] })
	t.mu.Lock()
	maps.DeleteFunc(t.heard, func(name string, _ time.Time) bool { return !wanted[name] })
	t.mu.Unlock()
	// Who knows the cluster knows what it has free, where that can be told.
	select {
	case <-t.measured:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return t.reportCluster(ctx, before, view, list, err)
}

// hear notes that there is reason to look at a name. What OSCAR shows from then
// on is new enough, so that those who are heard of together share one list.
func (t *term) hear(name string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard[name] = at
}

// newEnough is how old an answer of OSCAR may be for a decision about a name:
// not older than the reason for it, than age, and than our own last write.
func (t *term) newEnough(name string, now time.Time, age time.Duration) time.Time {
	t.mu.Lock()
	since := t.heard[name]
	t.mu.Unlock()
	for _, other := range []time.Time{now.Add(-age), t.notes.written(name)} {
		if other.After(since) {
			since = other
		}
	}
	return since
}

// takePeriodic says whether a name is looked at as part of a resync.
func (t *term) takePeriodic(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	periodic := t.periodic[name]
	delete(t.periodic, name)
	return periodic
}

// work takes names from a queue until it is shut down, and puts those that need
// a write into the write queue. After an error a name is
// decided upon again, with growing pauses.
func (t *term) work(ctx context.Context, queue workqueue.TypedInterface[string], do func(context.Context, string) (bool, error)) {
	for {
		name, shutdown := queue.Get()
		if shutdown {
			return
		}
		if !t.claims.take(name) {
			// Somebody works on it, and it is decided upon when he has done.
			queue.Done(name)
			continue
		}
		write, err := do(ctx, name)
		wanted := t.claims.release(name)
		queue.Done(name)
		switch {
		case write:
			t.writes.Add(name) // which looks at everything again
			t.metrics.queue.Set(float64(t.writes.Len()))
		case wanted:
			t.decisions.Add(name)
		}
		// A step that is only wanted yet has not ended what was tried in vain before.
		if ctx.Err() == nil && (!write || err != nil) {
			t.after(name, err)
		}
	}
}

// maxVotePause is the longest pause between tries to vote: a vote has a deadline.
const maxVotePause = time.Second

// after puts a name back when its work ended with an error.
func (t *term) after(name string, err error) {
	switch {
	case err == nil:
		t.retries.Forget(name)
		t.stale.Forget(name)
	case errors.Is(err, store.ErrSessionLost):
		t.session.Lose(session.ErrLost)
	case errors.Is(err, session.ErrNotRegistered), errors.Is(err, session.ErrOtherCluster):
		t.session.Lose(err)
	case errors.Is(err, session.ErrStale):
		t.decisions.AddAfter(name, t.stale.When(name))
	default:
		pause := t.retries.When(name)
		if d := t.session.Desired(name); d != nil && d.Intent == record.IntentPrepare && d.Deadline != nil {
			pause = min(pause, maxVotePause)
		}
		t.session.Log.Warn("service is looked at again", "service", name, "error", err, "pause", pause)
		t.decisions.AddAfter(name, pause)
	}
}

// claims are the names that somebody works on.
type claims struct {
	mu    sync.Mutex
	taken map[string]bool // value: somebody else wanted it meanwhile
}

func newClaims() *claims { return &claims{taken: map[string]bool{}} }

func (c *claims) take(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.taken[name]; taken {
		c.taken[name] = true
		return false
	}
	c.taken[name] = false
	return true
}

// release says whether the name was wanted meanwhile.
func (c *claims) release(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := c.taken[name]
	delete(c.taken, name)
	return wanted
}
