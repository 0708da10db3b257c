package watch

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/events"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
)

// Config of a Controller.
type Config struct {
	State    *view.State
	Gate     *gate.Gate
	Clusters *clusters.Controller
	Jobs     *jobs.Controller
	Events   *events.Controller
	Now      func() time.Time
}

// Controller follows the state for watchers.
type Controller struct{ cfg Config }

// New makes a Controller. It starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

// Query says what is watched. Empty fields match everything.
type Query struct {
	// Kinds are words of v1.EventKinds; none stands for v1.DefaultKinds.
	Kinds []string
	// Since is a revision up to which the caller was told everything; 0 begins with all that
	// there is. Epoch is that of the revision; empty is the present one.
	Since int64
	Epoch string
	// Filter chooses by owner, cluster and phase, and clusters by their labels.
	Filter listing.Query
	// Federation chooses jobs and events: a uid or a group_id.
	Federation string
}

func (q *Query) has(kind string) bool {
	if len(q.Kinds) == 0 {
		return slices.Contains(v1.DefaultKinds(), kind)
	}
	return slices.Contains(q.Kinds, kind)
}

// Watcher is told what there is.
type Watcher struct {
	// Event tells a change, and Bookmark that everything up to its revision was told.
	Event    func(v1.Event) error
	Bookmark func(v1.Bookmark) error
}

// settle is how long changes gather before a watcher is told of them.
const settle = 100 * time.Millisecond

// Check refuses a query that begins at a revision which is not known any more.
func (c *Controller) Check(ctx context.Context, caller identity.Caller, q Query) error {
	_, err := c.begin(ctx, caller, q)
	return err
}

// begin makes what follows the state from where the query begins.
func (c *Controller) begin(ctx context.Context, caller identity.Caller, q Query) (*follower, error) {
	if err := c.cfg.Gate.Fresh(ctx); err != nil {
		return nil, err
	}
	f := &follower{c: c, caller: caller, q: q, revision: q.Since}
	var now int64
	c.cfg.State.Read(func(v *view.View) { now, f.epoch = v.Revision, v.Epoch() })
	if q.Since == 0 {
		f.revision = now
		return f, nil
	}
	if q.Since > now || q.Epoch != "" && q.Epoch != f.epoch {
		return nil, expired()
	}
	if err := c.cfg.State.At(q.Since).Read(func(*view.Past) {}); err != nil || !q.has(v1.EventHappened) {
		return f, crossing(err)
	}
	_, err := c.cfg.Events.After(caller, q.events(), q.Since, 0)
	return f, crossing(err)
}

// Follow tells a watcher what the caller may see, and then what changes, until ctx ends or the
// watcher fails. The error is expired when the watcher was slower than the changes.
func (c *Controller) Follow(ctx context.Context, caller identity.Caller, q Query, w Watcher) error {
	f, err := c.begin(ctx, caller, q)
	if err != nil {
		return err
	}
	if q.has(v1.EventJob) {
		f.jobs = c.cfg.Jobs.Follow(caller, q.jobs())
		defer f.jobs.Close()
	}
	if f.w = w; q.Since == 0 {
		if err := f.all(ctx); err != nil {
			return err
		}
	}
	if err := f.bookmark(); err != nil {
		return err
	}
	for {
		changed, happened := c.cfg.State.Watch(), c.cfg.Events.Changed()
		if err := f.step(ctx); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-happened:
		case <-f.jobs.Changed():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func expired() error {
	return &fault.Error{
		Code:    fault.CodeExpired,
		Message: "the changes since this revision are no longer kept, or the store was restored; begin again without it",
	}
}

// crossing makes the error of a watch out of that of a read.
func crossing(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrCompacted):
		return expired()
	}
	return fault.Crossing(err)
}
