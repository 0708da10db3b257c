package jobs

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/recent"
	"github.com/oscarfed/oscarfed/internal/signal"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

const (
	// assignAtOnce and assignBytes bound the jobs, and their sealed events, of one
	// transaction: etcd takes 1.5 MiB.
	assignAtOnce = 25
	assignBytes  = 900 << 10
	// assignPause is the time between two rounds that assign nothing although jobs wait.
	assignPause = 50 * time.Millisecond
	// assignTick is the time between two rounds while jobs wait and nothing happens.
	assignTick = 5 * time.Second
	// waitsFor is how long a job waits before its record says that no member takes it:
	// a job that is assigned soon costs no revision.
	waitsFor = 500 * time.Millisecond
)

const (
	// eventsSize bounds the events that an instance keeps, in bytes.
	eventsSize = 16 << 20
	// eventCost is about how many bytes one takes beside its own.
	eventCost = 256
)

// dispatcher assigns queued jobs. Each instance of the control plane runs one; the
// transaction of an assignment compares what it was decided on, so that of two
// dispatchers one wins. The other steps back for a moment.
type dispatcher struct {
	wake   signal.Signal
	active active
	// due is when the queues of federations are to be looked at again without a change, blocked
	// says whose first jobs wait for capacity, and scannedAll when a scan has looked at all queues.
	due        map[string]time.Time
	blocked    map[string]bool
	scannedAll time.Time
	// gzips reuses writers: each has about a megabyte.
	gzips sync.Pool
	// events are those of jobs that this instance has accepted, until it assigns them: the instance
	// that accepts a job usually assigns it a moment later, and need not read and open its event
	// again. Every event is in the store too.
	events *recent.Values[[]byte]
}

func newDispatcher() *dispatcher {
	return &dispatcher{
		wake: signal.New(), active: newActive(), due: map[string]time.Time{}, blocked: map[string]bool{},
		events: recent.New[[]byte](eventsSize),
	}
}

func (d *dispatcher) look() { d.wake.Send() }

// dispatch assigns jobs until ctx ends.
func (c *Controller) dispatch(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var lost time.Duration
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.dispatcher.wake:
		case <-timer.C:
		}
		seen, err := c.assign(ctx)
		next := seen.next
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, gate.ErrStale), errors.Is(err, gate.ErrFence):
			// Another instance assigns the same jobs.
			lost = min(max(2*lost, 25*time.Millisecond), 400*time.Millisecond)
			next = lost/2 + rand.N(lost) //nolint:gosec // spreads load, guards nothing
		case err != nil:
			c.cfg.Logger.Warn("jobs were not assigned; it is tried again", "error", err)
			next = time.Second
		case seen.more:
			lost = 0
			c.dispatcher.look()
			continue
		case seen.waits:
			// Any change may have freed capacity: one round looks at all the changes of a pause.
			lost = 0
			if !gate.Pause(ctx, assignPause) {
				return ctx.Err()
			}
		default:
			lost = 0
		}
		timer.Reset(next)
	}
}

// assign makes one round and writes it.
func (c *Controller) assign(ctx context.Context) (roundResult, error) {
	if c.gate.Unverified() {
		return roundResult{}, gate.ErrStale
	}
	d, now := c.dispatcher, c.cfg.Now()
	p := newRound(&c.seen, now, c.cfg.Weights, c.needs.get)
	p.tooMany = func(v *view.View, sit *offerSituation) bool { return c.tooMany(v, sit, taking{}) }
	p.scope, p.blocked = d.scope(now), d.blocked
	out, err := c.assignIn(ctx, p)
	if err != nil {
		d.active.add(p.scope)
		return roundResult{}, err
	}
	d.active.add(scope{of: p.left})
	return out, nil
}

// assignIn makes a round within its scope.
func (c *Controller) assignIn(ctx context.Context, p *round) (roundResult, error) {
	if err := c.learnNeeds(ctx, p.scope); err != nil {
		return roundResult{}, err
	}
	var out roundResult
	var began time.Time
	c.state.Read(func(v *view.View) {
		began = time.Now()
		out.waits = v.Jobs.Queued.Len()+v.Jobs.Offered.Len() > 0
		p.fill(v)
		p.answerOffers(v)
	})
	c.metrics.scanned(p, time.Since(began))
	out.next = c.dispatcher.scanned(p)
	ready, err := c.sealed(ctx, p.steps)
	if err != nil {
		return roundResult{}, err
	}
	ready = append(ready, p.notes...)
	if len(ready) == 0 {
		return out, nil
	}
	done, err := c.commitJobs(ctx, ready)
	switch {
	case err != nil:
		return roundResult{}, err
	case len(done) < len(ready):
		return roundResult{}, gate.ErrStale
	}
	out.more = p.more || len(p.steps) > 0
	return out, nil
}

// sealed seals the events of assigned jobs, each to its cluster. It reads and opens an event
// that is not cached. A job whose event cannot be read ends.
func (c *Controller) sealed(ctx context.Context, steps []*assignStep) ([]*step, error) {
	if len(steps) == 0 {
		return nil, nil
	}
	bodies, known := make([][]byte, len(steps)), make([]bool, len(steps))
	var keys []string
	for i, p := range steps {
		if bodies[i], known[i] = c.dispatcher.events.Take(p.id()); !known[i] {
			keys = append(keys, record.EventKey(p.id()))
		}
	}
	var events store.View
	if len(keys) > 0 {
		var err error
		if events, err = c.store.Read(ctx, keys...); err != nil {
			return nil, err
		}
	}
	out := make([]*step, len(steps))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range steps {
		g.Go(func() error {
			out[i] = &p.step
			if !known[i] {
				body, err := c.openEvent(events, p.id())
				if err != nil {
					c.cfg.Logger.Error("the event of a job cannot be had", "job", p.id(), "error", err)
					c.state.Read(func(v *view.View) { out[i] = lostEvent(v, p, c.cfg.Now()) })
					return nil
				}
				bodies[i] = body
			}
			return c.complete(p, bodies[i])
		})
	}
	return out, g.Wait()
}

// openEvent opens the event at events/<job>.
func (c *Controller) openEvent(v store.View, job string) ([]byte, error) {
	return c.openAt(v, record.EventKey(job), job)
}

// openAt opens an event of a job that is sealed to the control plane.
func (c *Controller) openAt(v store.View, key, job string) ([]byte, error) {
	kv, ok := v.KV(key)
	if !ok {
		return nil, store.ErrNotFound
	}
	e, err := store.Decode[record.Event](kv)
	if err != nil {
		return nil, err
	}
	return c.cfg.Identity.Open(e.Sealed, seal.Header{Purpose: seal.PurposeEvent, UID: job}, c.cfg.Now())
}

// lostEvent ends a job instead of its assignment.
func lostEvent(v *view.View, p *assignStep, now time.Time) *step {
	return stepOf(v, view.Versioned[record.Job]{Rec: &p.was, Rev: p.rev}, 0, situation{job: p.was, now: now}.eventLost())
}

// complete adds the records that are written beside the job's record: decision, assignment, event.
func (c *Controller) complete(p *assignStep, body []byte) error {
	j := &p.next
	decision, err := c.dispatcher.encode(p.snapshot, p.decision, p.next.ChangedAt)
	if err != nil {
		return err
	}
	p.put = append(p.put, gate.Staged{Key: record.DecisionKey(j.Job, j.Attempt), Rec: decision})
	if old := j.Attempt - keepAttempts; old > 0 {
		p.remove = append(p.remove, record.DecisionKey(j.Job, old))
	}
	if j.Place.URL != "" {
		return nil
	}
	event, err := c.sealer.Seal(seal.Header{
		Purpose: seal.PurposeEvent, Cluster: j.Place.ClusterID, UID: j.Job, Generation: int64(j.Attempt),
	}, body, p.recipient)
	if err != nil {
		return err
	}
	p.put = append(p.put,
		gate.Staged{Key: record.AssignmentKey(j.Place.ClusterID, j.Job, j.Attempt), Rec: assignmentOf(j)},
		gate.Staged{Key: record.AssignedEventKey(j.Place.ClusterID, j.Job, j.Attempt), Rec: record.Event{V: record.Version, Sealed: event}},
	)
	return nil
}
