package status

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// Config says how often is looked.
type Config struct {
	// Resync is the period of the full compare.
	Resync time.Duration
	// AwayAfter is how long OSCAR may be out of reach before the cluster counts as away.
	AwayAfter time.Duration
	// CapacityEvery is how often what is free is measured while jobs are assigned to the
	// cluster, and at most reported.
	CapacityEvery time.Duration
	// SharedMinIO says that the MinIO is that of several OSCARs.
	SharedMinIO bool
}

// nodeLister tells the nodes of OSCAR.
type nodeLister interface {
	Nodes(ctx context.Context) ([]manager.Node, error)
}

// Kubernetes is what status asks of the Kubernetes below OSCAR.
type Kubernetes interface {
	SystemUID(ctx context.Context) (string, error)
	Denied(ctx context.Context) ([]string, error)
	Nodes(ctx context.Context) ([]kube.Node, error)
	WatchCapacity(ctx context.Context, changed func()) error
}

// writes is what status asks of those who write to OSCAR.
type writes interface {
	// Backlog is how long the writes that wait for OSCAR will take.
	Backlog() time.Duration
	// Deletions counts the deletions that were acknowledged in this session.
	Deletions() int64
	// DoubtListName names the list of writes in doubt; empty for none.
	DoubtListName() string
}

// Status reports of the cluster as a whole, for one session.
type Status struct {
	cfg         Config
	session     *session.Session
	answers     *answers.Answers
	oscar       nodeLister
	kube        Kubernetes
	writes      writes
	orphanGauge prometheus.Gauge
	// deletions is the count of them when orphans were reported last, and deleting says that it had changed then;
	// only ReportCluster uses them.
	deletions int64
	deleting  bool
	// reported is the revision of the last report of the cluster.
	reported atomic.Int64
	// measured is closed when it was tried once to tell what the cluster has free.
	measured chan struct{}
	// denied are the rights in Kubernetes that were found to lack at deniedAt; only ReportCluster
	// uses them.
	denied   []string
	deniedAt time.Time
	// written is when what is free was written last; only capacities uses it.
	written time.Time
}

// New starts nothing.
func New(now *session.Session, cfg Config, a *answers.Answers, o nodeLister, k Kubernetes, w writes, orphans prometheus.Gauge) *Status {
	return &Status{cfg: cfg, session: now, answers: a, oscar: o, kube: k, writes: w, deletions: -1, orphanGauge: orphans, measured: make(chan struct{})}
}

// Run probes OSCAR and measures what is free, until ctx ends.
func (s *Status) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { s.probe(ctx) })
	all.Go(func() { s.capacities(ctx) })
	all.Wait()
}

// FirstMeasured is closed when it was tried once to tell what the cluster has free.
func (s *Status) FirstMeasured() <-chan struct{} { return s.measured }
