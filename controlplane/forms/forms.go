package forms

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/version"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Config of a Controller.
type Config struct {
	Store *store.Store
	State *view.State
	Gate  *gate.Gate
	// Instance names this process, and Forms are what it reads and writes.
	Instance string
	Forms    record.Forms
	Now      func() time.Time
	Logger   *slog.Logger
}

// Controller announces what this instance reads and writes, and ends it when the store asks
// for more.
type Controller struct {
	cfg   Config
	store *store.Store
	state *view.State
	gate  *gate.Gate
	// outdated gets why this version may not work with the store any more.
	outdated chan error
}

// New makes a Controller. It starts nothing.
func New(cfg Config) *Controller {
	c := &Controller{cfg: cfg, store: cfg.Store, state: cfg.State, gate: cfg.Gate, outdated: make(chan error, 1)}
	cfg.State.Subscribe(func(news *view.Changes) {
		if news.Meta != nil {
			c.noteMinimum(news.Meta.Minimum)
		}
	})
	return c
}

// noteMinimum ends all writing of this instance when the store asks for a newer version.
func (c *Controller) noteMinimum(m record.Minimum) {
	err := m.Refuses(c.cfg.Forms)
	if err == nil {
		return
	}
	c.store.Refuse(&fault.Error{Code: fault.CodeUnavailable, RetryAfter: time.Minute, Message: err.Error()})
	select {
	case c.outdated <- fmt.Errorf("this control plane is too old: %w", err):
	default:
	}
}

// Watch ends with an error when the store asks for a newer version than this.
func (c *Controller) Watch(ctx context.Context) error {
	select {
	case err := <-c.outdated:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Check says whether this version may work with the store, before anything is written.
func (c *Controller) Check() error {
	var err error
	c.state.Read(func(v *view.View) {
		if v.Meta != nil {
			err = v.Meta.Refuses(c.cfg.Forms)
		}
	})
	if err != nil {
		return fmt.Errorf("this control plane is too old: %w", err)
	}
	return nil
}

// Announce keeps a leased key that says what this instance reads and writes, until ctx
// ends. It calls tried after the first try: an etcd that is full takes no key, and must
// not keep an instance from starting that makes room in it.
func (c *Controller) Announce(ctx context.Context, tried func()) {
	defer tried()
	for ctx.Err() == nil {
		session, err := c.store.OpenSession(ctx, store.SessionConfig{
			Key:    record.InstanceKey(c.cfg.Instance),
			Record: record.Instance{V: record.Version, Version: version.Get().Version, Forms: c.cfg.Forms, StartedAt: record.At(c.cfg.Now())},
		})
		tried()
		if err != nil {
			c.cfg.Logger.Warn("this instance could not announce itself; it is tried again", "error", err)
			gate.Pause(ctx, 5*time.Second)
			continue
		}
		select {
		case <-session.Done():
		case <-ctx.Done():
		}
		if err := session.Close(context.WithoutCancel(ctx)); err != nil {
			c.cfg.Logger.Warn("the announcement of this instance stays until its lease ends", "error", err)
		}
	}
}

// MayWrite says whether a form of records may be written now: nil when every instance of
// the control plane that runs, and the syncer of each of the clusters concerned, has
// announced that it reads it. The error names the first that has not.
func (c *Controller) MayWrite(ctx context.Context, form int, clusters ...string) error {
	instances, _, err := c.store.List(ctx, record.InstancesPrefix)
	if err != nil {
		return fault.Crossing(err)
	}
	for _, kv := range instances {
		i, err := store.Decode[record.Instance](kv)
		if err != nil {
			return err
		}
		if i.Reads < form {
			return tooOld(fmt.Sprintf("instance %s of the control plane (%s)", record.ParseKey(kv.Key).Name, i.Version), i.Reads, form)
		}
	}
	for _, id := range clusters {
		v, err := c.store.Read(ctx, record.SessionKey(id))
		if err != nil {
			return fault.Crossing(err)
		}
		kv, alive := v.KV(record.SessionKey(id))
		if !alive {
			return &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf("the syncer of cluster %q is away: what it reads is not known", id)}
		}
		s, err := store.Decode[record.Session](kv)
		if err != nil {
			return err
		}
		if max(s.Reads, 1) < form { // before forms had numbers, there was one
			return tooOld(fmt.Sprintf("the syncer of cluster %q (%s)", id, s.Version), max(s.Reads, 1), form)
		}
	}
	return nil
}

func tooOld(who string, reads, form int) error {
	return &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf("%s reads up to form %d, and form %d is not written before it is replaced by a newer version", who, reads, form)}
}

// RaiseMinimum makes the store ask for forms that everybody has announced, for good:
// older versions end where they run, and do not start again.
func (c *Controller) RaiseMinimum(ctx context.Context, to record.Minimum) error {
	if err := to.Refuses(c.cfg.Forms); err != nil {
		return &fault.Error{Code: fault.CodeFailedPrecondition, Message: err.Error()}
	}
	if err := c.gate.Fresh(ctx); err != nil {
		return err
	}
	var ids []string
	c.state.Read(func(v *view.View) {
		for id := range v.Clusters.All() {
			ids = append(ids, id)
		}
	})
	slices.Sort(ids)
	if err := c.MayWrite(ctx, max(to.MinReader, to.MinWriter), ids...); err != nil {
		return err
	}
	_, err := c.store.Update(ctx, store.Update{Keys: []string{record.MetaKey}, Build: func(v store.View, tx *store.Txn) error {
		meta, err := gate.Meta(v)
		if err != nil {
			return err
		}
		meta.Minimum = meta.Raised(to)
		tx.Expect(record.MetaKey)
		tx.Put(record.MetaKey, meta)
		return nil
	}})
	if err != nil {
		return fault.Crossing(err)
	}
	return gate.Spread(ctx, c.store, ids)
}
