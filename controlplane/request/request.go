package request

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/auditlog"
	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Config of a Controller.
type Config struct {
	Store    *store.Store
	State    *view.State
	Gate     *gate.Gate
	Counters *Counters
	// ListKey authenticates the tokens of lists.
	ListKey []byte
	// KeepAudit is how many entries of the audit are kept.
	KeepAudit int
	// KeepRequest is how long an idempotency record is kept, and RequestsPerUser bounds
	// those of one account.
	KeepRequest     time.Duration
	RequestsPerUser int
	// BytesPerUser bounds what one user has in etcd; 0 is an eighth of etcd's quota.
	BytesPerUser  int64
	SweepInterval time.Duration
	Now           func() time.Time
	Logger        *slog.Logger
}

// Controller keeps the records of requests, the audit, and what each account has in etcd.
type Controller struct {
	cfg      Config
	store    *store.Store
	state    *view.State
	gate     *gate.Gate
	counters *Counters
	// auditTokens continue lists of the audit.
	auditTokens *listing.Tokens
	// readings is the worker that moves reports of read refresh tokens into the audit, and
	// excess counts those that get no entry.
	readings *worker.Worker[string]
	excess   excessReadings
}

// New makes a Controller. It starts nothing.
func New(cfg Config) *Controller {
	c := &Controller{cfg: cfg, store: cfg.Store, state: cfg.State, gate: cfg.Gate, counters: cfg.Counters, auditTokens: listing.NewTokens("audit", cfg.ListKey)}
	c.readings = worker.New(worker.Config[string]{
		Handle: c.moveReading, MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Minute,
		OnError: func(key string, err error) {
			cfg.Logger.Warn("a reading of a refresh token is not in the audit yet", "key", key, "error", err)
		},
	})
	cfg.State.Subscribe(func(news *view.Changes) {
		for _, key := range news.Readings {
			c.readings.Add(key)
		}
	})
	return c
}

// Run moves readings into the audit and exports it, until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { c.readings.Run(ctx); return ctx.Err() })
	if c.counters.export != nil {
		g.Go(func() error { return c.exportAudit(ctx) })
	}
	return g.Wait()
}

// Counters count what each account has in the store. They see every record through a mirror.
type Counters struct {
	// requests counts the idempotency records, usage counts bytes, and audit indexes the audit
	// entries by origin.
	requests requestCounts
	usage    *usage
	audit    *auditIndex
	// export is nil when the audit is not exported.
	export *auditExport
}

// NewCounters makes Counters for an etcd that keeps history for so long. The audit is exported
// to log unless that is nil.
func NewCounters(now func() time.Time, history time.Duration, log *auditlog.Log) *Counters {
	c := &Counters{usage: newUsage(now, history), audit: newAuditIndex()}
	if log != nil {
		c.export = newAuditExport(log)
	}
	return c
}

func (c *Counters) taps() []store.Tap {
	out := []store.Tap{&c.requests, c.usage, c.audit}
	if c.export != nil {
		out = append(out, c.export)
	}
	return out
}

// Listed implements store.Tap.
func (c *Counters) Listed(kvs []store.KV) {
	for _, tap := range c.taps() {
		tap.Listed(kvs)
	}
}

// Changed implements store.Tap.
func (c *Counters) Changed(kv store.KV, deleted bool) {
	for _, tap := range c.taps() {
		tap.Changed(kv, deleted)
	}
}

// Reserve holds size bytes of etcd's space and of an account's budget until release.
func (c *Controller) Reserve(caller identity.Caller, account string, size int64) (release func(), err error) {
	spent, err := c.spend(caller, account, size)
	if err != nil {
		return nil, err
	}
	reserved, err := c.gate.ReserveSpace(size)
	if err != nil {
		spent()
		return nil, err
	}
	return func() {
		reserved()
		spent()
	}, nil
}

// ID is the given id of a request, or a new one.
func ID(given string) string {
	if given == "" {
		return record.NewUID()
	}
	return given
}
