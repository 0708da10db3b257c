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

// Config has the limits of jobs, and what they have in common with other parts.
type Config struct {
	Limits
	// StopGrace is how long a POST or DELETE may go on after the session.
	StopGrace time.Duration
	// LateWindow is how long an unanswered POST may take effect.
	LateWindow time.Duration
	// RetryPause is the first pause after a failed write.
	RetryPause time.Duration
	// Resync is how often it is looked whether all Jobs are known after a restore.
	Resync time.Duration
	// Tracer makes a span of each step of a traced job; nil for none.
	Tracer *tracing.Tracer
}

// Limits are those of jobs alone.
type Limits struct {
	// Posts is how many jobs are posted to OSCAR at the same time; default 16. An owner alone has
	// all of them that are not kept for others (share.Kept).
	Posts int
	// Timeout ends the POST or DELETE of a job; default 60 s.
	Timeout time.Duration
	// Poll is the shortest pause between two lists of the Jobs of one service; default 2 s. It
	// grows while nothing changes, and with how long OSCAR needs.
	Poll time.Duration
	// Start is how long the pod of a job may be stuck before it starts, until the job is given
	// back; negative for ever, default 10 minutes.
	Start time.Duration
	// Grace is how long after a POST or DELETE of a job its absence from a list proves nothing;
	// default 10 s.
	Grace time.Duration
	// Resend is how long after the first POST of a job without an answer it is sent again;
	// default 5 minutes.
	Resend time.Duration
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
	Events      Events
	Metrics     *Metrics
	Process     *Process
}
