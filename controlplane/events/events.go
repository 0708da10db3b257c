package events

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
)

// Config of a Controller.
type Config struct {
	State *view.State
	Gate  *gate.Gate
	Now   func() time.Time
}

// Controller keeps the events of this instance and shows them.
type Controller struct {
	cfg Config

	mu sync.Mutex
	// log is nil until Begin: what was there before is no event.
	log *log
	// changed is closed and replaced when there are new events.
	changed chan struct{}
}

// New makes a Controller, which observes the state. It starts nothing.
func New(cfg Config) *Controller {
	c := &Controller{cfg: cfg, changed: make(chan struct{})}
	cfg.State.Observe(c.observe)
	return c
}

// Begin makes each later change an event. What the state has by then has happened before.
func (c *Controller) Begin() {
	c.cfg.State.Read(func(v *view.View) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.log = newLog(c.cfg.Now(), v.Revision)
	})
}

// observe keeps what a refresh tells.
func (c *Controller) observe(v *view.View, news *view.Changes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return
	}
	found := derive(v, news, c.cfg.Now())
	for _, h := range found {
		c.log.add(h)
	}
	if len(found) > 0 {
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

// Changed is closed at the next event.
func (c *Controller) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Query says which events are asked for. Empty fields match everything.
type Query struct {
	// Kinds are words of v1.AboutKinds.
	Kinds []string
	// Federation is a uid or a group_id.
	Federation, ClusterID, Owner string
	// Since is the time after which they happened.
	Since time.Time
	// Limit is how many at most; 0 means 100, more than v1.MaxPage are not given.
	Limit int
	// Continue is the token of the page before: only events behind it are given.
	Continue string
}

func (q *Query) matches(h *happened) bool {
	is := func(want string, have ...string) bool { return want == "" || slices.Contains(have, want) }
	return (len(q.Kinds) == 0 || slices.Contains(q.Kinds, h.Kind)) && is(q.Federation, h.Federation, h.GroupID) &&
		is(q.ClusterID, h.ClusterID) && is(q.Owner, h.Owner) && h.At.After(q.Since)
}

// List lists events that the caller may see, the newest first. next continues the list behind this
// page; it is empty when there is nothing more.
func (c *Controller) List(ctx context.Context, caller identity.Caller, q Query) (out *v1.SystemEvents, next string, err error) {
	at, err := q.position()
	if err != nil {
		return nil, "", err
	}
	if err := c.cfg.Gate.Fresh(ctx); err != nil {
		return nil, "", err
	}
	limit := listing.Limit(q.Limit)
	out = &v1.SystemEvents{Events: []v1.SystemEvent{}}
	c.read(func(v *view.View, l *log) {
		out.Revision, out.Epoch, out.Since = v.Revision, v.Epoch(), v1.Time{Time: l.knownSince(v, caller)}
		behind := l.behind(at)
		l.newest(func(h *happened) bool {
			switch {
			case !behind(h) || !q.matches(h) || !sees(v, caller, h):
				return true
			case len(out.Events) == limit:
				next = out.Events[limit-1].ID + "-" + l.id
				return false
			}
			out.Events = append(out.Events, h.shownTo(caller))
			return true
		})
	})
	return out, next, nil
}

// position is where a page begins: behind an event of a log. An older version names no log.
type position struct {
	log                string
	revision, sequence int64
}

// position is where the query begins; the zero value is the newest event.
func (q *Query) position() (at position, err error) {
	if q.Continue == "" {
		return at, nil
	}
	revision, rest, _ := strings.Cut(q.Continue, "-")
	sequence, log, _ := strings.Cut(rest, "-")
	at.log = log
	for text, n := range map[string]*int64{revision: &at.revision, sequence: &at.sequence} {
		if *n, err = strconv.ParseInt(text, 10, 64); err != nil || *n <= 0 {
			return position{}, fault.Invalid(oscar.Violation{
				Path: "?continue", Rule: oscar.RuleType, Message: "it is no token of this list; leave it out to begin anew",
			})
		}
	}
	return at, nil
}

// After lists the events that the caller may see after a revision, the oldest first, with most of
// the newest when the revision is 0. The error is store.ErrCompacted when some were forgotten.
func (c *Controller) After(caller identity.Caller, q Query, revision int64, most int) (out []v1.SystemEvent, err error) {
	c.read(func(v *view.View, l *log) {
		if revision != 0 && l.forgot(v, caller, revision) {
			err = fmt.Errorf("%w: events after revision %d were forgotten", store.ErrCompacted, revision)
			return
		}
		l.newest(func(h *happened) bool {
			if h.Revision <= revision || revision == 0 && len(out) == most {
				return false
			}
			if q.matches(h) && sees(v, caller, h) {
				out = append(out, h.shownTo(caller))
			}
			return true
		})
	})
	slices.Reverse(out)
	return out, err
}

// read runs fn with the view and the events up to it. Neither changes meanwhile.
func (c *Controller) read(fn func(*view.View, *log)) {
	c.cfg.State.Read(func(v *view.View) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.log == nil {
			fn(v, newLog(c.cfg.Now(), v.Revision))
			return
		}
		fn(v, c.log)
	})
}

// sees says whether a caller may see an event: everybody sees clusters and the system; of a
// federation and its jobs its readers do, who were so when it happened, and the sender of a job.
func sees(v *view.View, caller identity.Caller, h *happened) bool {
	if h.Federation == "" || caller.MayChange(h.Owner) || h.sender != "" && h.sender == caller.Subject {
		return true
	}
	f := v.Federations.Get(h.Federation).Rec
	return f != nil && caller.MayRead(f.Owner, f.Visibility, f.AllowedUsers) && caller.MayRead(h.Owner, h.visibility, h.allowed)
}

func (h *happened) shownTo(caller identity.Caller) v1.SystemEvent {
	out := h.SystemEvent
	if caller.Administrator && h.private != "" {
		out.Message += ": " + h.private
	}
	return out
}

// forgot says whether events after a revision were forgotten that the caller might have seen.
func (l *log) forgot(v *view.View, caller identity.Caller, revision int64) bool {
	if revision < l.floor {
		return true
	}
	for owner, a := range l.accounts {
		if revision < a.floor && mightSee(v, caller, owner) {
			return true
		}
	}
	return false
}

// knownSince is the time after which no event was forgotten that the caller might have seen.
func (l *log) knownSince(v *view.View, caller identity.Caller) time.Time {
	since := l.since
	for owner, a := range l.accounts {
		if a.since.After(since) && mightSee(v, caller, owner) {
			since = a.since
		}
	}
	return since
}

// mightSee says whether a caller sees anything of an account.
func mightSee(v *view.View, caller identity.Caller, owner string) bool {
	if owner == "" || caller.MayChange(owner) {
		return true
	}
	for at := range v.FederationsOf(owner) {
		if f := v.Federations.Get(at.UID).Rec; f != nil && caller.MayRead(f.Owner, f.Visibility, f.AllowedUsers) {
			return true
		}
	}
	return false
}
