package services

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"

	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/internal/tracing"
	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/jobs"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/originstorage"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// deciding is how many services of one kind are decided upon at the same time. They only
// read, and share their lists.
const deciding = 8

// Config has the periods of services.
type Config struct {
	// Resync is the period of the full compare by one list.
	Resync time.Duration
	// WriteTimeout ends a POST, PUT or DELETE, and StopGrace is how long one may go on after the
	// session.
	WriteTimeout, StopGrace time.Duration
	// RetryPause is the first pause after a failed write, doubled each time.
	RetryPause time.Duration
	// Tracer makes a span of each write for a traced request; nil for none.
	Tracer *tracing.Tracer
}

// OSCAR is what services ask of OSCAR, beside what answers share.
type OSCAR interface {
	Get(ctx context.Context, name string) (*manager.Service, error)
	Create(ctx context.Context, name string, body []byte, as manager.Bearer, timeout time.Duration) error
	Update(ctx context.Context, name string, body []byte, as manager.Bearer, timeout time.Duration) error
	Delete(ctx context.Context, name string, timeout time.Duration) error
	Deployment(ctx context.Context, name string) (state string, err error)
	Stop(ctx context.Context, name string, timeout time.Duration) error
	Start(ctx context.Context, name string, timeout time.Duration) error
	AllowedImages(ctx context.Context) ([]string, error)
	CountObjects(ctx context.Context, name string, most int64) (n int64, more bool, err error)
	Visibility(ctx context.Context, bucket string) (string, error)
	HideBucket(ctx context.Context, name string, timeout time.Duration) error
	DeleteBucket(ctx context.Context, name string, as manager.Bearer, timeout time.Duration) error
	Volume(ctx context.Context, name string, as manager.Bearer) (*manager.Volume, error)
	DeleteVolume(ctx context.Context, name string, as manager.Bearer, timeout time.Duration) error
}

// Kubernetes is what services ask of the Kubernetes below OSCAR.
type Kubernetes interface {
	Heal(ctx context.Context, service string) error
	SecretLeft(ctx context.Context, owner, service string) (bool, error)
	Watch(ctx context.Context, changed func(service string)) error
}

// Deps is what services use of other parts.
type Deps struct {
	OSCAR       OSCAR
	Kube        Kubernetes
	Answers     *answers.Answers
	Definitions *definition.Cache
	Tokens      *ownertoken.Tokens
	Origins     *originstorage.Watch
	// Jobs and Counts say whether jobs of a service run.
	Jobs   *jobs.Jobs
	Counts *jobs.Counts
}

// Process is what services remember beyond a session.
type Process struct {
	writes   *recentWrites
	inDoubt  *inDoubt
	forecast *forecast
	metrics  *Metrics
	// gets bounds the reads of single services that are made for votes: OSCAR
	// lets about two a second through.
	gets *rate.Limiter
}

// NewProcess registers the metrics, unless r is nil. late is how long a write that was not answered may still take
// effect, and timeout ends one. doubts keeps which are in doubt; nil for none.
func NewProcess(r prometheus.Registerer, late, timeout time.Duration, doubts DoubtList) *Process {
	return &Process{
		writes: newRecentWrites(late, timeout), inDoubt: newInDoubt(doubts, late), forecast: newForecast(), metrics: newMetrics(r),
		gets: rate.NewLimiter(1, 3),
	}
}

// ForgiveSilence forgets the failures that OSCAR's silence has caused: it answers again.
func (p *Process) ForgiveSilence() { p.writes.forgiveSilence() }

// Services keep the services of the cluster as they are desired, for one session.
type Services struct {
	cfg     Config
	deps    Deps
	process *Process
	session *session.Session

	// These hold service names: decisions those to be decided upon, which hands votes and runStates what is theirs, and
	// writes those to be written. A goroutine that works on a name has claimed it.
	decisions, votes, runStates, writes *worker.Worker[string]
	// writing says that a write is under way, and deletions counts those that were acknowledged.
	writing   atomic.Bool
	deletions atomic.Int64
	claims    *claims
	retries   workqueue.TypedRateLimiter[string]
	// stale paces those that were decided on what is no longer so.
	stale workqueue.TypedRateLimiter[string]
	// deadlines are when those of services were first seen.
	deadlines clock.FirstSeen

	mu sync.Mutex
	// periodic holds the names that the next decision looks at as a resync, and
	// requested when there was last reason to look at a name.
	periodic  map[string]bool
	requested map[string]time.Time

	// orders are those of the last view that was looked at for what is outstanding.
	ordersMu sync.Mutex
	orders   map[string]order
}

// New starts nothing.
func New(now *session.Session, process *Process, cfg Config, deps Deps) *Services {
	s := &Services{
		cfg: cfg, deps: deps, process: process, session: now,
		claims: newClaims(), periodic: map[string]bool{}, requested: map[string]time.Time{},
		retries: workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, 15*time.Second),
		stale:   workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, 5*time.Second),
	}
	decide := worker.Config[string]{Goroutines: deciding, Handle: s.working(s.decide)}
	s.votes, s.runStates = worker.New(decide), worker.New(decide)
	decide.Handle = s.handing(decide.Handle)
	s.decisions = worker.New(decide)
	s.writes = worker.New(worker.Config[string]{Handle: s.working(s.write), Order: &priority{desired: s.desiredByOurClock, now: now.Now}})
	return s
}

// Run decides and writes until ctx ends. The write under way is finished first.
func (s *Services) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { s.decisions.Run(ctx) })
	all.Go(func() { s.votes.Run(ctx) })
	all.Go(func() { s.runStates.Run(ctx) })
	all.Go(func() {
		if s.process.inDoubt.quiet(ctx, s.session.Now()) {
			s.writes.Run(ctx)
		}
	})
	all.Go(func() { s.listen(ctx) })
	all.Wait()
	s.process.metrics.queue.Set(0) // what waited is decided anew
	s.remember()
}

// Backlog is how long the writes that wait will take.
func (s *Services) Backlog() time.Duration { return s.process.forecast.backlog(s.writes.Len()) }

// Deletions counts the deletions that were acknowledged in this session.
func (s *Services) Deletions() int64 { return s.deletions.Load() }

// DoubtListName names the list of writes in doubt of this process; empty for none.
func (s *Services) DoubtListName() string { return s.process.inDoubt.name() }
