package syncer

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// countAge is how long a count of running jobs is believed at least, after it was
	// taken, and countPause after how long it is taken anew at the earliest. One that took
	// longer is believed for countShare times as long, and taken anew a little before.
	countAge   = 10 * time.Second
	countPause = 3 * time.Second
	countShare = 4
	// counters is how many services are counted for at the same time.
	counters = 2
)

// counts are how many jobs run of each service that is to be deleted: its DELETE would
// kill them. They are taken beside the writer, which has other services to look after, and
// anew for as long as the service waits for its turn.
type counts struct {
	queue workqueue.TypedDelayingInterface[string]
	now   func() time.Time

	mu sync.Mutex
	of map[string]*jobCount
}

// jobCount is of one life of a service, and was begun after its tombstone was read.
type jobCount struct {
	uid     string
	running int
	// half says that the service was half-created, and its jobs could not be listed.
	half bool
	// until is how long it is believed; zero before the first one.
	until time.Time
	// retry is the pause after the last one failed.
	retry time.Duration
}

func newCounts(now func() time.Time) *counts {
	return &counts{now: now, queue: workqueue.NewTypedDelayingQueue[string](), of: map[string]*jobCount{}}
}

// read is the present count of a life of a service; nil when there is none that is new
// enough.
func (c *counts) read(name, uid string, now time.Time) *jobCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.of[name]; n != nil && n.uid == uid && now.Before(n.until) {
		seen := *n
		return &seen
	}
	return nil
}

// want has the jobs of a service counted, from now on until it is gone.
func (c *counts) want(name, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.of[name]; n == nil || n.uid != uid {
		c.of[name] = &jobCount{uid: uid}
		c.queue.Add(name)
	}
}

// wanted is the life of a service that is counted for; empty for none.
func (c *counts) wanted(name string) (uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.of[name]; n != nil {
		return n.uid
	}
	return ""
}

// drop ends the counting for a life.
func (c *counts) drop(name, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.of[name]; n != nil && n.uid == uid {
		delete(c.of, name)
	}
}

// took notes a count, says whether it changes what may be done, and has the next one taken.
func (c *counts) took(name, uid string, began time.Time, running int, half bool, err error) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.of[name]
	if n == nil || n.uid != uid {
		return false
	}
	if err != nil {
		n.retry = min(max(2*n.retry, time.Second), maxJobPause)
		c.queue.AddAfter(name, n.retry)
		return false
	}
	now := c.now()
	lasted, pause := now.Sub(began), countPause
	if running > 0 {
		pause = pollJobs
	}
	news = !now.Before(n.until) || (n.running > 0) != (running > 0) || n.half != half
	n.running, n.half, n.retry, n.until = running, half, 0, now.Add(max(countAge, countShare*lasted))
	c.queue.AddAfter(name, max(pause, (countShare-1)*lasted))
	return news
}

// countJobs takes the counts that are wanted, until ctx ends.
func (t *term) countJobs(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for range counters {
		all.Go(func() {
			for {
				name, shutdown := t.counts.queue.Get()
				if shutdown {
					return
				}
				t.countJobsOf(ctx, name)
				t.counts.queue.Done(name)
			}
		})
	}
}

func (t *term) countJobsOf(ctx context.Context, name string) {
	uid := t.counts.wanted(name)
	d := t.session.Desired(name)
	if d == nil || d.UID != uid || !d.Tombstone() || d.Jobs == jobsCancel {
		t.counts.drop(name, uid)
		return
	}
	if o := t.session.Observed(t.session.Mirror.Snapshot(), name, uid); o != nil && o.Phase == record.PhaseDeleted {
		t.counts.drop(name, uid)
		return
	}
	began := t.session.Now()
	jobs, err := t.jobsOf(ctx, name)
	half := errors.Is(err, errHalf)
	if half {
		err = nil // it is made whole first, and then counted for
	}
	running := 0
	for _, job := range jobs {
		if !job.Ended() {
			running++
		}
	}
	if err != nil && ctx.Err() == nil {
		t.session.Log.Warn("the jobs of a service that is to be deleted cannot be counted; it waits", "service", name, "error", err)
	}
	if t.counts.took(name, uid, began, running, half, err) {
		t.decisions.Add(name)
	}
}
