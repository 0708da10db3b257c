package forms

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
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
	Registry prometheus.Registerer
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
func New(cfg Config) (*Controller, error) {
	c := &Controller{cfg: cfg, store: cfg.Store, state: cfg.State, gate: cfg.Gate, outdated: make(chan error, 1)}
	cfg.State.Subscribe(func(news *view.Changes) {
		if news.Meta != nil {
			c.noteMinimum(news.Meta.Minimum)
		}
	})
	return c, cfg.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "oscarfed_upgrade_unfinished",
		Help: "1 while the store is written so that the version before can come back: until oscarfed finish-upgrade.",
	}, func() float64 {
		if c.Unfinished() > 0 {
			return 1
		}
		return 0
	}))
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

// Remind says in the log that an upgrade is not finished.
func (c *Controller) Remind() {
	if form := c.Unfinished(); form > 0 {
		c.cfg.Logger.Info("the upgrade is not finished: the store is written so that the version before can come back, until `oscarfed finish-upgrade`",
			"form", form, "newest", c.cfg.Forms.Writes)
	}
}

// Unfinished is the form that the store is written in while the upgrade to a newer one is not finished; 0 when it is.
func (c *Controller) Unfinished() (form int) {
	c.state.Read(func(v *view.View) {
		if v.Meta != nil && !v.MayWrite(c.cfg.Forms.Writes) {
			form = max(v.Meta.MinWriter, 1)
		}
	})
	return form
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

// FinishUpgrade makes the store ask the instances for the forms of this version, for good, and answers the
// newest that is written from then on. It is refused while an instance runs that does not read that. Done again
// it changes nothing.
func (c *Controller) FinishUpgrade(ctx context.Context, caller identity.Caller) (*v1.Upgrade, error) {
	if !caller.Administrator {
		return nil, fault.AdminOnly("finish an upgrade")
	}
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	if err := c.allRead(ctx, c.cfg.Forms.Writes); err != nil {
		return nil, err
	}
	res, err := c.store.Update(ctx, store.Update{Keys: []string{record.MetaKey}, Build: func(v store.View, tx *store.Txn) error {
		meta, err := gate.Meta(v)
		if err != nil {
			return err
		}
		raised := meta.Raised(c.cfg.Forms.Minimum())
		if raised == meta.Minimum {
			return nil
		}
		meta.Minimum = raised
		tx.Expect(record.MetaKey)
		tx.Put(record.MetaKey, meta)
		request.Note(tx, c.cfg.Now(), record.Audit{By: caller.Subject, Action: record.ActionFinishUpgrade, Outcome: record.OutcomeDone})
		return nil
	}})
	if err != nil {
		return nil, fault.Crossing(err)
	}
	return &v1.Upgrade{Form: c.cfg.Forms.Writes}, fault.Crossing(c.state.Wait(ctx, res.Revision))
}

// allRead refuses unless every instance of the control plane that runs has announced that it reads a form. The
// error names the first that has not.
func (c *Controller) allRead(ctx context.Context, form int) error {
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
			return &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf(
				"instance %s of the control plane (%s) reads up to form %d, and form %d is not written before it is replaced by a newer version",
				record.ParseKey(kv.Key).Name, i.Version, i.Reads, form)}
		}
	}
	return nil
}
