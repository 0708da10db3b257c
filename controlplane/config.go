package controlplane

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/internal/auditlog"
	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/tracing"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Config of an instance. Zero durations mean their defaults.
type Config struct {
	Store *store.Store
	// Root opens the store as etcd's root, for the moments in which space has to be
	// made; nil where everybody may do that.
	Root func(ctx context.Context) (*store.Store, error)
	// Forms are what this version reads and writes; default record.OwnForms.
	Forms record.Forms
	// Identity is the control plane's age key: all instances have the same.
	Identity *seal.Identity
	// Access admits clusters that join to etcd; nil when etcd has no users.
	Access clusters.Access
	// Users keeps etcd's users as the registrations are; nil when etcd has none, or
	// when only others may change them.
	Users clusters.Users
	// Limits of what one cluster may write; a cluster that exceeds them is revoked, unless
	// Users is nil.
	Limits access.Limits
	// DefaultCluster takes services that name no cluster; it may be empty.
	DefaultCluster string
	// PrepareDeadline is how long votes are waited for: 15 s.
	PrepareDeadline time.Duration
	// ApplyGrace is added to the longest expected delay of a write queue: 120 s.
	ApplyGrace time.Duration
	// PrefetchGrace is added when images are prefetched: 400 s.
	PrefetchGrace time.Duration
	// MaxQueueDelay is the longest write queue that a creation is put behind: 15 min.
	MaxQueueDelay time.Duration
	// KeepResult is how long aborted and rolled back creations are kept: 24 h.
	KeepResult time.Duration
	// KeepRequest is how long an idempotency record is kept: 24 h.
	KeepRequest time.Duration
	// KeepDeleted is how long a deleted replica is remembered: 90 days.
	KeepDeleted time.Duration
	// KeepAudit is how many entries of the audit are kept: 50,000.
	KeepAudit int
	// AuditLog is where the audit is exported to; nil for nowhere.
	AuditLog *auditlog.Log
	// RefreshTokenMaxAge is how old a refresh token may be before its owner is told to
	// give another one: 30 days; negative never tells.
	RefreshTokenMaxAge time.Duration
	// SweepInterval is the time between two clean-ups: 10 min.
	SweepInterval time.Duration
	// SpaceInterval is the time between two looks at etcd's space: 5 s.
	SpaceInterval time.Duration
	// EtcdRetention is the history that is kept in etcd when its space is short; 0 keeps all.
	EtcdRetention time.Duration
	// JobsPerFederation and JobsPerUser bound the jobs in flight: 10,000 and 20,000.
	JobsPerFederation, JobsPerUser int
	// RequestsPerUser bounds the idempotency records of one account: 500,000.
	RequestsPerUser int
	// BytesPerUser bounds what one user has in etcd; 0 is an eighth of etcd's quota, and
	// at least 64 MiB.
	BytesPerUser int64
	// JobWeights are the weights by which accounts and federations share the clusters.
	JobWeights jobs.Weights
	// KeepJobs is for how long jobs that have ended are kept, and KeepJobsEach how many of each
	// federation: 7 days, and 10,000.
	KeepJobs     time.Duration
	KeepJobsEach int
	// LostAfter is for how long a cluster must have had no session before a job that it
	// has claimed at most goes elsewhere: 10 s.
	LostAfter time.Duration
	// EndpointNetworks are networks that members of type endpoint may be in although they
	// are not of the public internet.
	EndpointNetworks []netip.Prefix
	// Dial connects to endpoints and, where a syncer has no stream, to OSCARs.
	Dial outbound.Dial
	// Witness is a file in which this instance keeps what it knows to be committed, so
	// that it notices when the store was restored; empty for none.
	Witness string
	// Restored says that the store was restored from a backup, which an instance
	// without a witness cannot know. It is for one start of one instance.
	Restored bool
	// Now is the clock; skew moves when something is decided, never what.
	Now func() time.Time
	// FailPoint is called with the name of each point that FailPoints and JobFailPoints
	// list, and of a few more; nil is off.
	FailPoint func(name string)
	Logger    *slog.Logger
	// Tracer makes spans of what is done for traced requests; nil for none.
	Tracer   *tracing.Tracer
	Registry *prometheus.Registry
	// RecentLog are the last lines of this instance's log, for who helps; nil for none.
	RecentLog func() []byte
}

// How many jobs that have ended are kept of each account, and of all.
const keepJobsUser, keepJobsAll = 50_000, 200_000

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Forms == (record.Forms{}) {
		c.Forms = record.OwnForms()
	}
	def(&c.PrepareDeadline, 15*time.Second)
	def(&c.ApplyGrace, 120*time.Second)
	def(&c.PrefetchGrace, 400*time.Second)
	def(&c.MaxQueueDelay, 15*time.Minute)
	def(&c.KeepResult, 24*time.Hour)
	def(&c.KeepRequest, 24*time.Hour)
	def(&c.KeepDeleted, 90*24*time.Hour)
	def(&c.RefreshTokenMaxAge, 30*24*time.Hour)
	def(&c.SweepInterval, 10*time.Minute)
	def(&c.KeepJobs, 7*24*time.Hour)
	def(&c.LostAfter, 10*time.Second)
	count := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	count(&c.JobsPerFederation, 10_000)
	count(&c.JobsPerUser, 20_000)
	count(&c.KeepJobsEach, 10_000)
	count(&c.RequestsPerUser, 500_000)
	if c.KeepAudit <= 0 {
		c.KeepAudit = 50_000
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	return c
}

// limits are the durations that steps of federations are decided by.
func (c Config) limits() decide.Limits {
	return decide.Limits{
		PrepareDeadline: c.PrepareDeadline, ApplyGrace: c.ApplyGrace, PrefetchGrace: c.PrefetchGrace, MaxDelay: c.MaxQueueDelay, KeepResult: c.KeepResult,
	}
}
