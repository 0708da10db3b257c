package controlplane

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// jobTick is the time between two looks at what only time changes.
	jobTick = time.Second
	// tickLate says that this process itself stood still: what it has not seen meanwhile
	// proves nothing.
	tickLate = 5 * time.Second
)

// jobDecider takes the next step of jobs that were assigned: ends, refusals,
// withdrawals. Each instance of the control plane runs one. The transaction of a step
// compares the job's record and its report, so that of two deciders one wins.
type jobDecider struct {
	wake chan struct{}

	mu    sync.Mutex
	dirty map[string]bool
	// away is since when this instance has seen no session of a cluster.
	away map[string]time.Time
	tick time.Time
}

func newJobDecider() *jobDecider {
	return &jobDecider{wake: make(chan struct{}, 1), dirty: map[string]bool{}, away: map[string]time.Time{}}
}

// look asks for a look at jobs.
func (d *jobDecider) look(jobs ...string) {
	if len(jobs) == 0 {
		return
	}
	d.mu.Lock()
	for _, id := range jobs {
		d.dirty[id] = true
	}
	d.mu.Unlock()
	nudge(d.wake)
}

// take gives what is to be looked at, in the order of acceptance.
func (d *jobDecider) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]string, 0, len(d.dirty))
	for id := range d.dirty {
		out = append(out, id)
	}
	clear(d.dirty)
	slices.Sort(out)
	return out
}

func nudge(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// jobsChanged queues the jobs that a change of the state concerns.
func (c *ControlPlane) jobsChanged(news *Changes) {
	if len(news.Federations)+len(news.Clusters)+len(news.Jobs) == 0 && !news.Capacity {
		return
	}
	var ids, posted []string
	for id := range news.Jobs {
		ids = append(ids, id)
	}
	c.state.read(func(v *View) {
		for _, id := range ids {
			if v.jobs.posted[id] {
				posted = append(posted, id)
			}
		}
		for cluster := range news.Clusters {
			for id := range v.jobs.on[cluster] {
				ids = append(ids, id)
			}
		}
		for uid := range news.Federations {
			for id := range v.jobs.of[uid] {
				if !v.jobs.all[id].rec.State.Ended() {
					ids = append(ids, id)
				}
			}
		}
	})
	c.jobDecider.look(ids...)
	for _, id := range posted {
		c.toPost.Add(id)
	}
	c.dispatcher.look()
}

// decideJobs takes steps of jobs until ctx ends.
func (c *ControlPlane) decideJobs(ctx context.Context) error {
	d := c.jobDecider
	ticker := time.NewTicker(jobTick)
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
		if len(ids) == 0 || c.doubtful() {
			d.look(ids...)
			if len(ids) > 0 && !pause(ctx, jobTick) {
				return ctx.Err()
			}
			continue
		}
		left, err := c.stepJobs(ctx, ids)
		if err != nil && ctx.Err() == nil && !errors.Is(err, errFence) {
			c.cfg.Logger.Warn("steps of jobs were not taken; they are tried again", "jobs", len(left), "error", err)
		}
		if len(left) == 0 {
			rest = 0
			continue
		}
		// Somebody else was faster, or etcd does not answer: let it settle.
		rest = min(max(2*rest, 10*time.Millisecond), time.Second)
		if !pause(ctx, rest/2+rand.N(rest)) { //nolint:gosec // spreads load, guards nothing
			return ctx.Err()
		}
		d.look(left...)
	}
}

// pause waits, or says that ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stepJobs looks at jobs and takes their steps, and answers those that are to be
// looked at again.
func (c *ControlPlane) stepJobs(ctx context.Context, ids []string) (left []string, err error) {
	for part := range slices.Chunk(ids, maxJobSteps) {
		var steps []*jobStep
		c.state.read(func(v *View) {
			for _, id := range part {
				if p := v.jobStep(id, &c.jobsSeen, c.clusterLost, c.cfg); p != nil {
					steps = append(steps, p)
				}
			}
		})
		ready, stepErr := c.completeSteps(ctx, steps)
		var done []*jobStep
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

// jobStep decides on one job; nil for no step.
func (v *View) jobStep(id string, seen *clock.Sightings, lost func(cluster string) bool, cfg Config) *jobStep {
	if p := v.foundStep(id, cfg.Now()); p != nil {
		return p
	}
	if p := v.offerStep(id, seen, cfg); p != nil {
		return p
	}
	j, ok := v.jobs.all[id]
	if !ok {
		return nil
	}
	sit, report := v.jobSituation(j.rec, cfg.Now())
	sit.pause = cfg.JobPause
	if p := j.rec.Place; p != nil {
		sit.lost = lost(p.ClusterID)
	}
	d := decideJob(sit)
	if d.name == "" {
		return nil
	}
	return v.stepOf(j, report, d)
}

// stepOf makes a decision about a job ready to be written.
func (v *View) stepOf(j versioned[record.Job], report int64, d jobDecision) *jobStep {
	out := &jobStep{name: d.name, rev: j.rev, was: *j.rec, next: d.next, watch: map[string]int64{}}
	p, n := j.rec.Place, j.rec.Attempt
	if d.dropEvent {
		out.remove = append(out.remove, record.EventKey(j.rec.Job))
	}
	if f := j.rec.Frozen; f != nil && d.next.State.Ended() && d.next.State != record.JobParked {
		// What stands frozen goes, unless nothing of it has ever run anywhere.
		word := record.OfferRelease
		if d.next.State == record.JobFailed && d.next.Reason == record.JobEventLost {
			word = record.OfferRestore
		}
		out.next.Frozen, out.next.FrozenAt = nil, nil
		if _, registered := v.clusters[f.ClusterID]; registered {
			out.put = append(out.put, staged{record.OfferAnswerKey(f.ClusterID, j.rec.Job), v.answer(word, d.next.ChangedAt)})
		}
	}
	if p == nil || p.URL != "" || j.rec.State == record.JobQueued {
		return out
	}
	out.posted = postedAt(j.rec, v.nodes[p.ClusterID].reports[attemptID{j.rec.Job, n}].rec)
	key := record.JobReportKey(p.ClusterID, j.rec.Job, n)
	out.watch[key] = report
	if d.fenced {
		out.watch[record.SessionKey(p.ClusterID)] = v.session(p.ClusterID)
	}
	if d.drop {
		out.remove = append(out.remove, record.AssignmentKey(p.ClusterID, j.rec.Job, n), record.AssignedEventKey(p.ClusterID, j.rec.Job, n))
		if report != 0 {
			out.remove = append(out.remove, key)
		}
	}
	if d.cancel || d.resolve != "" {
		a := *v.nodes[p.ClusterID].assignments[attemptID{j.rec.Job, n}].rec
		a.Cancel = a.Cancel || d.cancel
		a.Resolved = cmp.Or(d.resolve, a.Resolved)
		out.put = append(out.put, staged{record.AssignmentKey(p.ClusterID, j.rec.Job, n), a})
	}
	return out
}

// jobSituation reads what is known of one job, and the revision of its report.
func (v *View) jobSituation(j *record.Job, now time.Time) (jobSituation, int64) {
	sit := jobSituation{job: *j, epoch: v.epoch(), epochOf: j.Epoch, now: now}
	f, ok := v.federations[j.Federation]
	sit.disbanded = !ok || f.rec.Phase == record.PhaseDeleting || f.rec.Phase == record.PhaseRollingBack || f.rec.Phase.Result()
	p := j.Place
	if p == nil || p.ClusterID == "" || j.State == record.JobQueued || j.State.Ended() {
		return sit, 0
	}
	reg, ok := v.clusters[p.ClusterID]
	sit.registered = ok && (p.ClusterUID == "" || reg.rec.UID == p.ClusterUID)
	sit.stopped = !ok || reg.rec.State != record.ClusterActive
	sit.revoked = ok && reg.rec.Revoked != nil
	sit.session, sit.listed = v.session(p.ClusterID), v.listed(p.ClusterID)
	if f := j.Frozen; f != nil {
		if n := v.nodes[f.ClusterID]; n != nil && n.offers[j.Job].rec != nil {
			o := n.offers[j.Job].rec.State
			sit.thawed = o != record.OfferFrozen && o != record.OfferWaiting
		}
	}
	d := v.desired(p.ClusterID, p.ServiceName).rec
	sit.gone = d == nil || d.UID != p.UID || d.Tombstone()
	sit.cancels = d != nil && d.UID == p.UID && d.Tombstone() && d.Jobs == jobsCancel
	n := v.nodes[p.ClusterID]
	if n == nil {
		return sit, 0
	}
	id := attemptID{j.Job, j.Attempt}
	if a := n.assignments[id].rec; a != nil {
		sit.assigned, sit.cancelSent, sit.resolution, sit.epochOf = true, a.Cancel, a.Resolved, a.Epoch
	}
	report := n.reports[id]
	sit.report = report.rec
	return sit, report.rev
}

// jobsCancel is the order to end running jobs in a tombstone.
const jobsCancel = "cancel"

// clusterLost says whether this instance has seen no session of a cluster for LostAfter, while
// it heard from etcd all the time.
func (c *ControlPlane) clusterLost(cluster string) bool {
	c.jobDecider.mu.Lock()
	defer c.jobDecider.mu.Unlock()
	since, away := c.jobDecider.away[cluster]
	return away && time.Since(since) >= c.cfg.LostAfter
}

// watchSessions notes which clusters with jobs are away, and lists the jobs of those
// that have been for long enough. When etcd was not heard from, or when this process
// stood still, it begins to count anew: absence counts only while somebody looks.
func (c *ControlPlane) watchSessions() []string {
	d, now, healthy := c.jobDecider, time.Now(), c.mirror.Healthy()
	var ids []string
	c.state.read(func(v *View) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !healthy || !d.tick.IsZero() && now.Sub(d.tick) > tickLate {
			clear(d.away)
		}
		d.tick = now
		for cluster := range d.away {
			if v.session(cluster) != 0 || len(v.jobs.on[cluster]) == 0 {
				delete(d.away, cluster)
			}
		}
		if !healthy {
			return
		}
		ids = append(ids, sortedKeys(v.jobs.frozen)...)
		for cluster, jobs := range v.jobs.on {
			if v.session(cluster) != 0 {
				continue
			}
			if _, ok := d.away[cluster]; !ok {
				d.away[cluster] = now
			}
			if now.Sub(d.away[cluster]) < c.cfg.LostAfter {
				continue
			}
			for id := range jobs {
				ids = append(ids, id)
			}
		}
	})
	return ids
}
