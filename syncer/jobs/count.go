package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
)

const (
	// countAge is how long a count of running jobs is believed at least, after it was
	// taken, and countPause after how long it is taken anew at the earliest. One that took
	// longer is believed for countShare times as long, and taken anew a little before.
	countAge   = 10 * time.Second
	countPause = 3 * time.Second
	countShare = 4
	// countRunning is after how long running jobs are counted anew.
	countRunning = 10 * time.Second
	// countPatience is how long counting fails before it is told that jobs cannot be counted.
	countPatience = 30 * time.Second
	// counters is how many services are counted for at the same time.
	counters = 2
)

// Counts are how many jobs run of each service that is to be deleted: its DELETE would
// kill them. They are taken beside the writer, which has other services to look after, and
// anew for as long as the service waits to be deleted.
type Counts struct {
	session *session.Session
	lister  *Lister
	// changed is told when a count says something new about a service.
	changed func(service string)
	queue   *worker.Worker[string]

	mu sync.Mutex
	of map[string]*RunningCount
}

// RunningCount is of one life of a service, and was begun after its tombstone was read.
type RunningCount struct {
	uid     string
	Running int
	// Half says that the service was half-created, and its jobs could not be listed.
	Half bool
	// until is how long it is believed; zero before the first one.
	until time.Time
	// retry is the pause after the last one failed, and failing when the first one began that failed since the last that
	// did not.
	retry   time.Duration
	failing time.Time
	// failure is why, when that is told.
	failure error
}

// NewCounts starts nothing.
func NewCounts(now *session.Session, lister *Lister, changed func(service string)) *Counts {
	c := &Counts{session: now, lister: lister, changed: changed, of: map[string]*RunningCount{}}
	c.queue = worker.New(worker.Config[string]{Handle: c.countOne, Goroutines: counters})
	return c
}

// Run counts until ctx ends.
func (c *Counts) Run(ctx context.Context) { c.queue.Run(ctx) }

// Read is the present count of a life of a service; nil when there is none that is new
// enough.
func (c *Counts) Read(name, uid string, now time.Time) *RunningCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.of[name]; n != nil && n.uid == uid && now.Before(n.until) {
		seen := *n
		return &seen
	}
	return nil
}

// Failure is why the jobs of a life of a service cannot be counted; nil when they can be, or may be soon.
func (c *Counts) Failure(name, uid string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.of[name]; n != nil && n.uid == uid {
		return n.failure
	}
	return nil
}

// Want has the jobs of a service counted, from now on until it is gone.
func (c *Counts) Want(name, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.of[name]; n == nil || n.uid != uid {
		c.of[name] = &RunningCount{uid: uid}
		c.queue.Add(name)
	}
}

// wanted is the life of a service that is counted for; empty for none.
func (c *Counts) wanted(name string) (uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.of[name]; n != nil {
		return n.uid
	}
	return ""
}

// drop ends the counting for a life.
func (c *Counts) drop(name, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.of[name]; n != nil && n.uid == uid {
		delete(c.of, name)
	}
}

// took notes a count, says whether it changes what may be done, and has the next one taken.
func (c *Counts) took(name, uid string, began time.Time, running int, half bool, err error) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.of[name]
	if n == nil || n.uid != uid {
		return false
	}
	if err != nil {
		n.retry = min(max(2*n.retry, time.Second), maxJobPause)
		c.queue.AddAfter(name, n.retry)
		if n.failing.IsZero() {
			n.failing = began
		}
		if n.failure != nil || c.session.Now().Sub(n.failing) < countPatience {
			return false
		}
		n.failure = err
		return true
	}
	now := c.session.Now()
	lasted, pause := now.Sub(began), countPause
	if running > 0 {
		pause = countRunning
	}
	news = !now.Before(n.until) || (n.Running > 0) != (running > 0) || n.Half != half
	n.Running, n.Half, n.retry, n.failing, n.failure, n.until = running, half, 0, time.Time{}, nil, now.Add(max(countAge, countShare*lasted))
	c.queue.AddAfter(name, max(pause, (countShare-1)*lasted))
	return news
}

func (c *Counts) countOne(ctx context.Context, name string) (time.Duration, error) {
	uid := c.wanted(name)
	d := c.session.Desired(name)
	if d == nil || d.UID != uid || !d.Tombstone() || d.Jobs == record.JobsCancel {
		c.drop(name, uid)
		return 0, nil
	}
	if o := c.session.Observed(c.session.Mirror.Snapshot(), name, uid); o != nil && o.Phase == record.PhaseDeleted {
		c.drop(name, uid)
		return 0, nil
	}
	began := c.session.Now()
	jobs, err := c.lister.of(ctx, name)
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
		c.session.Log.Warn("the jobs of a service that is to be deleted cannot be counted; it waits", "service", name, "error", err)
	}
	if c.took(name, uid, began, running, half, err) {
		c.changed(name)
	}
	return 0, nil
}
