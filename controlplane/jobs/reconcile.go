package jobs

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/signal"
	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// tickEvery is the time between two checks of conditions that only time changes.
	tickEvery = time.Second
	// tickLate is how late a tick shows that this process itself stood still: a session that it
	// has not seen meanwhile may have existed.
	tickLate = 5 * time.Second
)

// reconciler takes the next step of jobs that were assigned: ends, refusals,
// withdrawals. Each instance of the control plane runs one. The transaction of a step
// compares the job's record and its report, so that of two reconcilers one wins.
type reconciler struct {
	wake signal.Signal

	mu    sync.Mutex
	dirty map[string]bool
	// away is since when this instance has seen no session of a cluster.
	away map[string]time.Time
	tick time.Time
	// full are the clusters of which the log says that jobs which they have found wait for a record.
	full map[string]bool
}

func newReconciler() *reconciler {
	return &reconciler{wake: signal.New(), dirty: map[string]bool{}, away: map[string]time.Time{}, full: map[string]bool{}}
}

// look queues jobs.
func (d *reconciler) look(jobs ...string) {
	if len(jobs) == 0 {
		return
	}
	d.mu.Lock()
	for _, id := range jobs {
		d.dirty[id] = true
	}
	d.mu.Unlock()
	d.wake.Send()
}

// take empties the queue, in the order of acceptance.
func (d *reconciler) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := slices.Sorted(maps.Keys(d.dirty))
	d.dirty = map[string]bool{} // a map keeps the memory of the most that it had
	return out
}

// stateChanged queues the jobs that a change of the state concerns.
func (c *Controller) stateChanged(news *view.Changes) {
	if len(news.Federations)+len(news.Clusters)+len(news.Jobs) == 0 && !news.Capacity {
		return
	}
	var ids, posted []string
	for id := range news.Jobs {
		ids = append(ids, id)
	}
	c.state.Read(func(v *view.View) {
		for _, id := range ids {
			if v.Jobs.Posted.Get(id) {
				posted = append(posted, id)
			}
		}
		for cluster := range news.Clusters {
			for id := range v.Jobs.ByCluster.Of(cluster).IDs() {
				ids = append(ids, id)
			}
		}
		for uid := range news.Federations {
			for id := range v.Jobs.ByFederation.Of(uid).IDs() {
				if !v.Jobs.ByID.Head(id).State.Ended() {
					ids = append(ids, id)
				}
			}
		}
		c.dispatcher.activate(v, news)
	})
	c.reconciler.look(ids...)
	for _, id := range posted {
		c.posts.Add(id)
	}
	c.dispatcher.look()
}

// reconcileJobs takes steps of jobs until ctx ends.
func (c *Controller) reconcileJobs(ctx context.Context) error {
	d := c.reconciler
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	var rest time.Duration
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			d.look(c.watchSessions()...)
		case <-d.wake:
		}
		ids := d.take()
		if len(ids) == 0 || c.gate.Unverified() {
			d.look(ids...)
			if len(ids) > 0 && !gate.Pause(ctx, tickEvery) {
				return ctx.Err()
			}
			continue
		}
		left, err := c.stepJobs(ctx, ids)
		if err != nil && ctx.Err() == nil && !errors.Is(err, gate.ErrFence) {
			c.cfg.Logger.Warn("steps of jobs were not taken; they are tried again", "jobs", len(left), "error", err)
		}
		if len(left) == 0 {
			rest = 0
			continue
		}
		// Another instance was faster, or etcd does not answer: wait a little.
		rest = min(max(2*rest, 10*time.Millisecond), time.Second)
		if !gate.Pause(ctx, rest/2+rand.N(rest)) { //nolint:gosec // spreads load, guards nothing
			return ctx.Err()
		}
		d.look(left...)
	}
}

// stepJobs takes the steps of jobs, and returns the jobs that must be queued again.
func (c *Controller) stepJobs(ctx context.Context, ids []string) (left []string, err error) {
	for part := range slices.Chunk(ids, maxJobSteps) {
		var steps []*step
		taken := newTaking()
		c.state.Read(func(v *view.View) {
			cfg := c.stepConfig(taken)
			for _, id := range part {
				if p := nextStep(v, id, cfg); p != nil {
					steps = append(steps, p)
					if p.name == "take" {
						taken.add(p)
					}
				}
			}
		})
		ready, stepErr := c.completeSteps(ctx, steps)
		var done []*step
		if stepErr == nil {
			done, stepErr = c.commitJobs(ctx, ready)
		}
		err = errors.Join(err, stepErr)
		for _, p := range steps {
			if !slices.Contains(done, p) {
				left = append(left, p.id())
			}
		}
	}
	return left, err
}

// clusterLost says whether this instance has seen no session of a cluster for LostAfter, while its
// mirror of etcd was healthy all the time.
func (c *Controller) clusterLost(cluster string) bool {
	c.reconciler.mu.Lock()
	defer c.reconciler.mu.Unlock()
	since, away := c.reconciler.away[cluster]
	return away && time.Since(since) >= c.cfg.LostAfter
}

// watchSessions notes which clusters with jobs are away, and lists the jobs of clusters that
// have been away for LostAfter. It starts counting again when the mirror was not healthy or
// this process stood still: absence counts only while this process watches.
func (c *Controller) watchSessions() []string {
	d, now, healthy := c.reconciler, time.Now(), c.state.Mirror.Healthy()
	var ids []string
	c.state.Read(func(v *view.View) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !healthy || !d.tick.IsZero() && now.Sub(d.tick) > tickLate {
			clear(d.away)
		}
		d.tick = now
		for cluster := range d.away {
			if v.Session(cluster) != 0 || v.Jobs.ByCluster.Of(cluster).Empty() {
				delete(d.away, cluster)
			}
		}
		if !healthy {
			return
		}
		ids = append(ids, slices.Sorted(v.Jobs.Frozen.Keys())...)
		ids = append(ids, timedOffers(v)...)
		for cluster := range v.Jobs.ByCluster.Keys() {
			if v.Session(cluster) != 0 {
				continue
			}
			if _, ok := d.away[cluster]; !ok {
				d.away[cluster] = now
			}
			if now.Sub(d.away[cluster]) < c.cfg.LostAfter {
				continue
			}
			ids = slices.AppendSeq(ids, v.Jobs.ByCluster.Of(cluster).IDs())
		}
	})
	return ids
}

// offersAtOnce is how many offers of one cluster are looked at in one tick or round, and of how many jobs
// a tick looks at the offers. One cluster may have 100,000 of them.
const offersAtOnce = 1000

// timedOffers are jobs with an offer about which time decides, offersAtOnce at most, and others each
// time: one that may wait for a place, one that may wait for lists of Jobs, or one that is gone and left an
// answer.
func timedOffers(v *view.View) (ids []string) {
	add := func(id string) (more bool) {
		ids = append(ids, id)
		return len(ids) < offersAtOnce
	}
	for w, o := range someOffers(v) {
		if o != nil && (o.State == record.OfferFrozen || o.Held) && !add(w.job) {
			return ids
		}
	}
	for w := range someAnswers(v) {
		if v.Nodes.Get(w.cluster).Offers.Get(w.job).Rec == nil && !add(w.job) {
			return ids
		}
	}
	return ids
}
