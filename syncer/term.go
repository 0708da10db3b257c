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
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// deciders is how many services are decided upon at the same time. They only
// read, and share their lists.
const deciders = 8

// term is the work within one session.
type term struct {
	*Syncer
	session *store.Session
	// leads says whether this OSCAR is ours to write to, by the Lease in its
	// Kubernetes.
	leads   func() bool
	started time.Time
	// lose ends the term.
	lose context.CancelCauseFunc

	lists   *shared[*listing]
	buckets *shared[bucketSet]
	nodes   *shared[[]manager.Node]
	infos   *shared[manager.Info]
	// storages is where OSCAR's MinIO is.
	storages *shared[manager.Storage]
	// health is how OSCAR has answered, and amiss rings when a trouble begins.
	health *health
	amiss  chan struct{}
	// sizes are the nodes as Kubernetes tells them.
	sizes *shared[[]kube.Node]
	// ids is which OSCAR this is.
	ids *shared[string]
	// admissions are the users whom OSCAR lets in.
	admissions *admissions

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
	// tokensSeen are when access tokens of others were.
	tokensSeen clock.Sightings
	// tokens holds the uids of federations whose tokens are to be looked after, and
	// needs those that lack one here.
	tokens workqueue.TypedRateLimitingInterface[string]
	needs  *needs
	// tokenNews rings when there is news of any token.
	tokenNews *bell
	claims    *claims
	desk      *desk
	// jobs lists the Jobs of services, and counts are of those that run.
	jobs   jobLister
	counts *counts
	// replicas are those that jobs were looked at for.
	replicas replicas
	// measured is closed when it was tried once to tell what the cluster has free.
	measured chan struct{}
	// capacityWritten is when what is free was written last; only capacities uses it.
	capacityWritten time.Time
	offers          *offers
	// offered is there while Jobs are offered.
	offered *offerIndex
	// looks are at the storage of origins, and alive what their MinIOs answer.
	looks *looks
	alive *minios

	mu sync.Mutex
	// periodic holds the names that the next decision looks at as a resync, and
	// heard when there was last reason to look at a name.
	periodic map[string]bool
	heard    map[string]time.Time
}

func newTerm(s *Syncer, session *store.Session, leads func() bool, lose context.CancelCauseFunc) *term {
	t := &term{
		Syncer:    s,
		session:   session,
		leads:     leads,
		started:   s.cfg.Now(),
		lose:      lose,
		claims:    newClaims(),
		measured:  make(chan struct{}),
		periodic:  map[string]bool{},
		heard:     map[string]time.Time{},
		decisions: workqueue.NewTypedDelayingQueue[string](),
		retries:   workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, 15*time.Second),
		stale:     workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, 5*time.Second),
	}
	t.amiss = make(chan struct{}, 1)
	t.health = newHealth(t.cfg.Now, func() { ring(t.amiss) }, t.answersAgain)
	t.needs, t.offers, t.looks, t.tokenNews = newNeeds(t.cfg.Now), newOffers(), newLooks(), &bell{}
	t.tokens = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 30*time.Second))
	t.desk, t.jobs, t.counts = newDesk(t), newJobSource(t), newCounts(t.cfg.Now)
	t.writes = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{
		Queue: &priority{desired: t.desiredByOurClock, now: t.cfg.Now},
	})
	return t
}

// run works until ctx ends. The write under way is finished first.
func (t *term) run(ctx context.Context) error {
	// Also when it ends before anybody works: each queue has a goroutine of its own.
	defer t.shutDown()
	// Calls that are shared belong to the term, not to who asked first.
	t.lists = newShared(ctx, t.cfg.Now, noting(t.health, manager.OpList, t.Syncer.list))
	t.buckets = newShared(ctx, t.cfg.Now, noting(t.health, manager.OpBuckets, t.Syncer.bucketList))
	t.nodes = newShared(ctx, t.cfg.Now, t.cfg.OSCAR.Nodes)
	t.sizes = newShared(ctx, t.cfg.Now, t.cfg.Kube.Sizes)
	t.infos = newShared(ctx, t.cfg.Now, noting(t.health, manager.OpInfo, t.cfg.OSCAR.Info))
	t.storages = newShared(ctx, t.cfg.Now, noting(t.health, manager.OpConfig, t.cfg.OSCAR.Storage))
	t.ids = newShared(ctx, t.cfg.Now, t.identify)
	t.admissions = newAdmissions(t.cfg.Now, t.cfg.OSCAR.Admits)
	if t.cfg.Origins != nil {
		t.alive = newMinios(ctx, t.cfg.Now, t.cfg.Origins.Alive)
		defer t.alive.wait()
	}
	defer func() {
		t.lists.wait()
		t.buckets.wait()
		t.nodes.wait()
		t.sizes.wait()
		t.infos.wait()
		t.storages.wait()
		t.ids.wait()
	}()

	// From this revision on, nobody else has written to our OSCAR.
	if err := t.mirror.Wait(ctx, t.session.CreateRevision()); err != nil {
		return err
	}
	if _, err := t.serves(t.mirror.Snapshot().KV(record.DesiredClusterKey(t.cfg.ClusterID))); err != nil {
		return err
	}
	t.assumeForPredecessors()
	t.setReady(true)
	defer t.setReady(false)
	t.current.Store(t)
	defer t.current.Store(nil)

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return t.follow(ctx) })
	group.Go(func() error { return t.resyncs(ctx) })
	group.Go(func() error { t.probe(ctx); return nil })
	group.Go(func() error { t.listen(ctx); return nil })
	group.Go(func() error { return t.desk.run(ctx) })
	if t.cfg.Relay != nil {
		group.Go(func() error { t.cfg.Relay.Run(ctx, site{t}); return nil })
	}
	group.Go(func() error { t.countJobs(ctx); return nil })
	group.Go(func() error { t.capacities(ctx); return nil })
	group.Go(func() error { t.offerJobs(ctx); return nil })
	if t.cfg.Local != nil {
		for range lookers {
			group.Go(func() error { t.lookAtOrigins(ctx); return nil })
		}
	}
	for range deciders {
		group.Go(func() error { t.work(ctx, t.decisions, t.decide); return nil })
	}
	group.Go(func() error { t.work(ctx, t.writes, t.write); return nil })
	for range tenders {
		group.Go(func() error { t.tend(ctx); return nil })
	}
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
	t.counts.queue.ShutDown()
	t.tokens.ShutDown()
	t.looks.queue.ShutDown()
	t.offers.queue.ShutDown()
	t.desk.due.ShutDown()
	t.desk.listings.ShutDown()
}

// assumeForPredecessors notes for each order without an outcome that an earlier
// process may have sent its POST a moment before it died. What is still being
// prepared was not ordered yet.
func (t *term) assumeForPredecessors() {
	view := t.mirror.Snapshot()
	for kv := range view.Prefix(record.DesiredServicesPrefix(t.cfg.ClusterID)) {
		d, err := store.Decode[record.Desired](kv)
		if err != nil || d.Intent == record.IntentPrepare {
			continue
		}
		name := record.ParseKey(kv.Key).Name
		o := t.observedIn(view, name, d.UID)
		if o == nil || o.Phase == record.PhasePending || o.Phase == record.PhasePrepared || o.Phase == record.PhaseApplying {
			t.notes.assume(name, t.started)
		}
	}
}

// observedIn is our last report about a life of a service, or nil.
func (s *Syncer) observedIn(view *store.MirrorView, name, uid string) *record.Observed {
	kv, ok := view.KV(record.ObservedServiceKey(s.cfg.ClusterID, name))
	if !ok {
		return nil
	}
	return s.decodeObserved(kv, uid)
}

// decodeObserved gives nil for a report about another life, and for one that
// cannot be read: it will be written anew.
func (s *Syncer) decodeObserved(kv store.KV, uid string) *record.Observed {
	o, err := store.Decode[record.Observed](kv)
	if err != nil {
		s.log.Error("own report cannot be read; it is written anew", "error", err)
		return nil
	}
	if o.UID != uid {
		return nil
	}
	return o
}

func (s *Syncer) desiredInMirror(name string) *record.Desired {
	return desiredIn(s.mirror.Snapshot(), record.DesiredServiceKey(s.cfg.ClusterID, name))
}

// desiredIn is nil for a record that is absent, and for one that cannot be read.
func desiredIn(view *store.MirrorView, key string) *record.Desired {
	kv, ok := view.KV(key)
	if !ok {
		return nil
	}
	d, err := store.Decode[record.Desired](kv)
	if err != nil {
		return nil
	}
	return d
}

// desiredByOurClock is what is desired of a name, with its deadline by our clock.
func (t *term) desiredByOurClock(name string) *record.Desired {
	d := t.desiredInMirror(name)
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
	since := t.deadlines.Since(name, d.UID+" "+d.Deadline.String(), t.cfg.Now())
	if d.DeadlineS <= 0 {
		return d.Deadline.Time // an older control plane does not say how long it has
	}
	return since.Add(time.Duration(d.DeadlineS) * time.Second)
}

// standing enters what holds for the whole cluster: whether it is paused or revoked, the epoch,
// and whether that is in doubt.
func (v *sight) standing(s *Syncer, c *record.DesiredCluster) {
	if c != nil {
		v.stopped, v.epoch, v.doubtful = stopped(c), c.Word(), s.doubtful(c)
	}
}

// stopped says whether nothing is written to OSCAR in the cluster's state. One that is
// not known, of a newer control plane, is taken for a pause.
func stopped(c *record.DesiredCluster) bool {
	return c.State == record.ClusterPaused || c.State == record.ClusterRevoked || c.SameOscarAs != "" || record.Strange(c) != ""
}

// follow turns changes of the mirror into work.
func (t *term) follow(ctx context.Context) error {
	feed := t.mirror.Feed()
	defer feed.Close()
	for {
		keys, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		view, now := t.mirror.Snapshot(), t.cfg.Now()
		t.settleLedger(view)
		for _, key := range keys {
			switch ref := record.ParseKey(key); ref.Kind {
			case record.KindDesiredService:
				if word := record.Strange(desiredIn(view, key)); word != "" {
					t.log.Error("a newer control plane asks for what this syncer does not know; the service is left as it is", "service", ref.Name, "word", word)
				}
				t.hear(ref.Name, now)
				t.decisions.Add(ref.Name)
				t.tendServed(view, ref.Name)
				t.desk.hearOf(ref.Name)
				t.offers.again(ref.Name)
			case record.KindAssignment:
				t.desk.hear(ref)
			case record.KindOffer, record.KindOfferAnswer:
				t.offerCame(view, ref.Name)
			case record.KindHold, record.KindHolding, record.KindTokenAsk, record.KindGranted, record.KindWant, record.KindGrant:
				t.tokens.Add(ref.Name)
			case record.KindObservedService, record.KindAsk:
				t.decisions.Add(ref.Name)
				t.desk.hearOf(ref.Name)
			case record.KindTokens:
				t.tokenCame(view, ref.Name, now)
			case record.KindDesiredCluster:
				t.noteEpoch(view)
				for kv := range view.Prefix(record.DesiredServicesPrefix(t.cfg.ClusterID)) {
					t.decisions.Add(record.ParseKey(kv.Key).Name)
				}
				t.tendAll(view)
				t.desk.hearAll()
				t.offers.allAgain()
				t.offerAll(view)
			}
		}
	}
}

// tokenCame looks anew at the services of a federation: who has refused for want of
// its owner's token votes again.
func (t *term) tokenCame(view *store.MirrorView, federation string, now time.Time) {
	t.tokenNews.ring()
	for kv := range view.Prefix(record.DesiredServicesPrefix(t.cfg.ClusterID)) {
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
	c, err := t.serves(view.KV(record.DesiredClusterKey(t.cfg.ClusterID)))
	switch {
	case errors.Is(err, errNotRegistered), errors.Is(err, errOtherCluster), errors.Is(err, errOutdated):
		t.lose(err)
		return
	case err != nil:
		t.log.Error("desired cluster cannot be read", "error", err)
		return
	}
	if before := t.registration.Swap(c); before != nil && (before.ControlPlane != c.ControlPlane || before.Epoch != c.Epoch) {
		t.log.Warn("registration of the cluster has changed", "cluster_uid", c.UID, "control_plane", c.ControlPlane, "epoch", c.Epoch)
		ring(t.compareNow)
	}
}

// resyncs compares everything now and then, with one list, and at once when the
// store was restored, or OSCAR answers again.
func (t *term) resyncs(ctx context.Context) error {
	for {
		if err := t.resync(ctx); err != nil && ctx.Err() == nil {
			t.log.Warn("full compare not possible", "error", err)
		}
		jitter := 0.9 + 0.2*rand.Float64() //nolint:gosec // spreads load
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.compareNow:
		case <-time.After(time.Duration(float64(t.cfg.Resync) * jitter)):
		}
	}
}

func (t *term) resync(ctx context.Context) error {
	before, began := t.mirror.Snapshot(), t.cfg.Now()
	list, _, err := t.lists.get(ctx, began)
	view := t.mirror.Snapshot()
	wanted := map[string]bool{}
	for kv := range view.Prefix(record.DesiredServicesPrefix(t.cfg.ClusterID)) {
		name := record.ParseKey(kv.Key).Name
		wanted[name] = true
		t.mu.Lock()
		t.periodic[name] = true
		t.mu.Unlock()
		t.hear(name, began)
		t.decisions.Add(name)
	}
	t.needs.forget(began.Add(-needsKept - 3*t.cfg.Resync))
	t.tendAll(view)
	t.offers.allAgain()
	t.offerAll(view)
	t.forgetKeys(view)
	t.deadlines.Keep(func(name string) bool { return wanted[name] })
	t.notes.forget(t.cfg.Now(), func(name string) bool { return wanted[name] })
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
		t.lose(errSessionLost)
	case errors.Is(err, errNotRegistered), errors.Is(err, errOtherCluster):
		t.lose(err)
	case errors.Is(err, errStale):
		t.decisions.AddAfter(name, t.stale.When(name))
	default:
		pause := t.retries.When(name)
		if d := t.desiredInMirror(name); d != nil && d.Intent == record.IntentPrepare && d.Deadline != nil {
			pause = min(pause, maxVotePause)
		}
		t.log.Warn("service is looked at again", "service", name, "error", err, "pause", pause)
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
