package jobs

import (
	"context"
	"time"

	"github.com/oscarfed/oscarfed/internal/tracing"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/originstorage"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
)

// Config has the limits of jobs.
type Config struct {
	// Posts is how many jobs are posted at the same time; an owner alone has all of them.
	Posts int
	// Timeout ends the POST or DELETE of a job, and StopGrace how long one may go on after
	// the session.
	Timeout, StopGrace time.Duration
	// Poll is the shortest pause between two lists of the Jobs of one service.
	Poll time.Duration
	// Start is how long the pod of a job may be stuck before it starts; negative for ever.
	Start time.Duration
	// Grace is how long after a POST or DELETE of a job its absence from a list proves
	// nothing.
	Grace time.Duration
	// Resend is how long after the first POST of a job without an answer it is sent again,
	// and LateWindow how long an unanswered one may take effect.
	Resend, LateWindow time.Duration
	// RetryPause is the first pause after a failed write.
	RetryPause time.Duration
	// Resync is how often it is looked whether all Jobs are known after a restore.
	Resync time.Duration
	// Tracer makes a span of each step of a traced job; nil for none.
	Tracer *tracing.Tracer
}

// OSCAR is what jobs ask of OSCAR.
type OSCAR interface {
	Pages
	Submit(ctx context.Context, job manager.Submission, timeout time.Duration) error
	DeleteJob(ctx context.Context, service, name string, timeout time.Duration) error
}

// Deps is what jobs use of other parts.
type Deps struct {
	OSCAR       OSCAR
	Kube        kube.Interface
	Answers     *answers.Answers
	Definitions *definition.Cache
	Tokens      *ownertoken.Tokens
	Keys        *originstorage.Keys
	Origins     *originstorage.Watch
	Events      *Events
	Metrics     *Metrics
	Process     *Process
}
