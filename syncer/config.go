package syncer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/internal/failpoint"
	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/tracing"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/jobs"
	"github.com/oscarfed/oscarfed/syncer/keyserver"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/originstorage"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
	"github.com/oscarfed/oscarfed/syncer/services"
	"github.com/oscarfed/oscarfed/syncer/session"
	"github.com/oscarfed/oscarfed/syncer/status"
	"github.com/oscarfed/oscarfed/syncer/token"
)

// OSCAR is all that the parts of the syncer ask of the local OSCAR Manager; *manager.Client is
// one. Every call has a deadline of its own, and every error of it is an *manager.APIError.
type OSCAR interface {
	answers.OSCAR
	services.OSCAR
	jobs.OSCAR
	passer
}

// Config of a Syncer.
type Config struct {
	// ClusterID is the cluster that the syncer speaks for.
	ClusterID string
	Store     *store.Store
	OSCAR     OSCAR
	// Kube is the Kubernetes below OSCAR; default: none.
	Kube kube.Interface
	// Vault is where refresh tokens rest; default: Secrets of Kube. Without Kubernetes
	// this cluster can hold none.
	Vault token.Vault
	// Issuers are those that refresh tokens are exchanged at.
	Issuers []token.Issuer
	// Dial connects to the issuers; what reaches etcd, OSCAR and the control plane has its
	// own way to them.
	Dial outbound.Dial
	// SharedMinIO says that the MinIO is that of several OSCARs, so that a mark in it
	// identifies none of them.
	SharedMinIO bool
	// Identity opens what is sealed to this cluster.
	Identity *seal.Identity
	// Memory keeps which registration of the cluster the syncer is for; default:
	// as long as the process lives.
	Memory session.Memory
	// Lock is a name that this process alone holds, until it ends: a session of an earlier one that held it is ended at
	// once, and its Lease in Kubernetes taken over. Default: none, and both run out.
	Lock string
	// InDoubt keeps to which services a write is in doubt, and how far etcd was seen, beyond the process; default: nothing
	// does, and a syncer that starts assumes what the one before it may have sent, and knows of no restore.
	InDoubt services.DoubtList
	// AcceptClusterUID is a registration that is served although another one is
	// remembered.
	AcceptClusterUID string
	// LocalURL is under which OSCAR reaches Local; Local answers it with the keys that
	// Origins give. Without them, workers use the storage of their own cluster.
	LocalURL string
	Local    Local
	Origins  originstorage.Client
	// Relay keeps streams to the control plane; nil for none.
	Relay Relay
	// Forms are what this version reads and writes; default record.OwnForms.
	Forms record.Forms
	// Instance names this process in its session; default: a new UUID.
	Instance string

	// Resync is the period of the full compare by one list; default 60 s, with jitter.
	Resync time.Duration
	// CapacityEvery is how often what the cluster has free is measured while jobs are
	// assigned to it, and at most reported; default 15 s, with jitter. Without jobs it is
	// measured once for each Resync.
	CapacityEvery time.Duration
	// OriginLook is how often it is looked whether the storage of an origin can be used;
	// default 5 minutes, with jitter, and a fifth of it while it cannot.
	OriginLook time.Duration
	// SessionTTL is how long the session outlives a silent syncer, and how long OSCAR may be out of
	// reach before the cluster counts as away; default 30 s.
	SessionTTL time.Duration
	// KeepJobs says that Jobs which wait here are not offered to the federation.
	KeepJobs bool
	// RescheduleAfter is how long a Job waits before it is offered, where its
	// federation does not say; default 30 s.
	RescheduleAfter time.Duration
	// LateWindow is how long a POST or DELETE that was not answered may still
	// take effect; default 300 s, OSCAR's own limit of a request.
	LateWindow time.Duration
	// WriteTimeout ends a POST, PUT or DELETE, but for one that fetches images; default 60 s. OSCAR
	// needs at least 6 s.
	WriteTimeout time.Duration
	// StopGrace is how long a write under way may go on after Run was told to
	// stop; default 20 s.
	StopGrace time.Duration
	// RetryPause is the first pause after a failed write, doubled each time;
	// default 2 s.
	RetryPause time.Duration

	// Jobs are the limits of jobs alone.
	Jobs jobs.Limits

	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Tracer makes spans of what is done for traced requests; nil for none.
	Tracer *tracing.Tracer
	// Registry gets the metrics; default: none.
	Registry prometheus.Registerer
	// Now is the clock; default time.Now. What others wrote is never held against it: their
	// clocks may be hours away.
	Now func() time.Time
	// FailPoints ends the process at a named point, for tests; default: off.
	FailPoints *failpoint.Trigger
}

func (c Config) withDefaults() Config {
	period := func(d *time.Duration, fallback time.Duration) {
		if *d <= 0 {
			*d = fallback
		}
	}
	period(&c.Resync, time.Minute)
	period(&c.CapacityEvery, 15*time.Second)
	period(&c.OriginLook, 5*time.Minute)
	period(&c.SessionTTL, 30*time.Second)
	period(&c.RescheduleAfter, 30*time.Second)
	period(&c.LateWindow, 300*time.Second)
	period(&c.WriteTimeout, 60*time.Second)
	period(&c.StopGrace, 20*time.Second)
	period(&c.RetryPause, 2*time.Second)
	period(&c.Jobs.Timeout, time.Minute)
	period(&c.Jobs.Poll, 2*time.Second)
	period(&c.Jobs.Grace, 10*time.Second)
	period(&c.Jobs.Resend, 5*time.Minute)
	if c.Jobs.Start == 0 {
		c.Jobs.Start = 10 * time.Minute
	}
	if c.Jobs.Posts <= 0 {
		c.Jobs.Posts = 16
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	// Whether OSCAR was asked before a write or after it is told by the time alone.
	c.Now = clock.Ordered(c.Now)
	if c.Kube == nil {
		c.Kube = kube.Absent{}
	}
	if c.Vault == nil {
		c.Vault = ownertoken.NewKubeVault(c.Kube, c.Now)
	}
	if c.Memory == nil {
		c.Memory = &session.ProcessMemory{}
	}
	if c.Forms == (record.Forms{}) {
		c.Forms = record.OwnForms()
	}
	if c.Instance == "" {
		c.Instance = uuid.NewString()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With("cluster", c.ClusterID)
	return c
}

// Validate reports everything that is missing.
func (c Config) Validate() error {
	var problems []error
	missing := func(absent bool, what string) {
		if absent {
			problems = append(problems, fmt.Errorf("syncer: %s is missing", what))
		}
	}
	missing(c.ClusterID == "", "the cluster id")
	missing(c.Store == nil, "the store")
	missing(c.OSCAR == nil, "the OSCAR client")
	missing(c.Identity == nil, "the identity")
	if c.LocalURL != "" || c.Local != nil || c.Origins != nil {
		missing(c.LocalURL == "", "the URL of the local server")
		missing(c.Local == nil, "the local server")
		missing(c.Origins == nil, "the client of origins")
	}
	return errors.Join(problems...)
}

// Local answers the OSCAR beside the syncer; *keyserver.Server is one.
type Local interface {
	// Run answers for a site until ctx ends.
	Run(ctx context.Context, site keyserver.Site) error
}

// jobs has the limits of jobs.
func (c Config) jobs() jobs.Config {
	return jobs.Config{
		Limits: c.Jobs, StopGrace: c.StopGrace, LateWindow: c.LateWindow, RetryPause: c.RetryPause, Resync: c.Resync, Tracer: c.Tracer,
	}
}

// services has the periods of services.
func (c Config) services() services.Config {
	return services.Config{
		Resync: c.Resync, WriteTimeout: c.WriteTimeout, StopGrace: c.StopGrace, RetryPause: c.RetryPause,
		Tracer: c.Tracer,
	}
}

// status has the periods of what is reported of the cluster.
func (c Config) status() status.Config {
	return status.Config{
		Resync: c.Resync, AwayAfter: c.SessionTTL, CapacityEvery: c.CapacityEvery, SharedMinIO: c.SharedMinIO,
	}
}
