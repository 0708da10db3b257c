package gate

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Config of a gate.
type Config struct {
	Store *store.Store
	State *view.State
	// Root opens the store as etcd's root. It is nil when the ordinary user may compact and
	// defragment.
	Root func(ctx context.Context) (*store.Store, error)
	// SpaceInterval is the time between two looks at etcd's space, and EtcdRetention the
	// history that is kept when it is short; 0 keeps all.
	SpaceInterval, EtcdRetention time.Duration
	Now                          func() time.Time
	// FailPoint is called with the name of each fail point; nil is off.
	FailPoint func(name string)
	Logger    *slog.Logger
	Registry  prometheus.Registerer
}

// Gate says whether the store may be read and written now. Every use case passes it.
type Gate struct {
	cfg   Config
	store *store.Store
	state *view.State
	space *store.SpaceWatch
	// suspicions counts the signs that the store was restored, until it has a new epoch.
	suspicions atomic.Int64
}

// New makes a gate. It starts nothing.
func New(cfg Config) (*Gate, error) {
	g := &Gate{cfg: cfg, store: cfg.Store, state: cfg.State}
	return g, g.watchSpace()
}

// Run watches etcd's space until ctx ends.
func (g *Gate) Run(ctx context.Context) error { return g.space.Run(ctx) }

// FailPrefix stands before the names of the control plane's fail points.
const FailPrefix = "controlplane."

// Fail passes a fail point of the control plane.
func (g *Gate) Fail(point string) {
	if g.cfg.FailPoint != nil {
		g.cfg.FailPoint(FailPrefix + point)
	}
}

// Fresh waits until the state is as new as the store is now, so that what is
// read afterwards is linearizable.
func (g *Gate) Fresh(ctx context.Context) error {
	_, err := g.FreshWith(ctx, record.MetaKey)
	return err
}

// FreshWith does what Fresh does, and reads keys that the state does not have at the same
// revision.
func (g *Gate) FreshWith(ctx context.Context, keys ...string) (store.View, error) {
	if err := g.CheckVerified(); err != nil {
		return store.View{}, err
	}
	v, err := g.store.Read(ctx, keys...)
	if err != nil {
		return store.View{}, fault.Crossing(err)
	}
	if err := g.state.Wait(ctx, v.Revision); err != nil {
		return store.View{}, fault.Crossing(err)
	}
	// What was waited for may be the listing of a restored store.
	if err := g.CheckVerified(); err != nil {
		return store.View{}, err
	}
	return v, nil
}

// Unverified says that the store was restored while this instance ran, and has no new
// epoch yet.
func (g *Gate) Unverified() bool { return g.suspicions.Load() > 0 }

// CheckVerified refuses a request while the store is unverified.
func (g *Gate) CheckVerified() error {
	if !g.Unverified() {
		return nil
	}
	return &fault.Error{Code: fault.CodeUnavailable, RetryAfter: time.Second,
		Message: "the store was restored from an older state, and is being compared with what was seen before; try again in a moment"}
}

// Suspect notes a sign that the store was restored.
func (g *Gate) Suspect() { g.suspicions.Add(1) }

// Suspicions counts the signs that were noted.
func (g *Gate) Suspicions() int64 { return g.suspicions.Load() }

// Verify ends n suspicions; false when another one has come.
func (g *Gate) Verify(n int64) bool { return g.suspicions.CompareAndSwap(n, 0) }

// Shows waits until the state shows what was committed at a revision. When it
// cannot, the caller must not be told that nothing was changed.
func (g *Gate) Shows(ctx context.Context, revision int64) error {
	if err := g.state.Wait(ctx, revision); err != nil {
		return fmt.Errorf("%w: it was committed at revision %d: %w", store.ErrUnknownOutcome, revision, err)
	}
	return nil
}

// Age is the minimum age of a record that was written at a revision, by the time that all
// instances agree on.
func (g *Gate) Age(revision int64) time.Duration {
	return g.state.Elapsed.Age(revision, g.cfg.Now())
}

// Due is when a deadline passes by this instance's clock. The writer's clock set it some time
// ahead; that time is counted from the moment at which this instance first saw it.
func Due(written, deadline record.Time, since time.Time) time.Time {
	if since.IsZero() || written.IsZero() {
		return deadline.Time
	}
	return since.Add(deadline.Sub(written.Time))
}

// DeleteAsRead deletes a record unless it was written since it was read.
func (g *Gate) DeleteAsRead(ctx context.Context, kv store.KV) error {
	_, err := g.store.Update(ctx, store.Update{Keys: []string{kv.Key}, Build: func(v store.View, tx *store.Txn) error {
		if now, ok := v.KV(kv.Key); ok && now.ModRevision == kv.ModRevision {
			tx.Expect(kv.Key)
			tx.Delete(kv.Key)
		}
		return nil
	}})
	return err
}
