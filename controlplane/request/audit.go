package request

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// maxAuditDetail bounds the sentence of an entry, in bytes.
const maxAuditDetail = 300

// Note writes an audit entry in the transaction that makes the change.
func Note(tx *store.Txn, at time.Time, e record.Audit) {
	e.V, e.At, e.Detail = record.Version, record.At(at), view.Shorten(e.Detail, maxAuditDetail)
	tx.Put(record.AuditKey(record.NewUID()), e)
}

// EntryOf makes an audit entry about a federation, by the subject of the last change.
func EntryOf(f record.Federation, action record.Action, outcome record.Outcome) record.Audit {
	return record.Audit{
		By: f.By, Action: action, Outcome: outcome, Federation: f.UID, Owner: f.Owner, GroupID: f.GroupID,
		Generation: f.Generation, RequestID: f.RequestID, Detail: f.Detail,
	}
}

// EntryOfStep is the audit entry of a decision; nil for steps between an acceptance and its
// outcome.
func EntryOfStep(old record.Federation, d decide.Decision) *record.Audit {
	f := old
	if d.Fed != nil {
		f = *d.Fed
	}
	var e record.Audit
	switch d.Step {
	case decide.StepReady, decide.StepAccept:
		e = EntryOf(f, record.ActionCreate, record.OutcomeDone)
	case decide.StepAbort:
		e = EntryOf(f, record.ActionCreate, record.OutcomeRefused)
	case decide.StepRollBack:
		e = EntryOf(f, record.ActionCreate, record.OutcomeFailed)
	case decide.StepRolledBack:
		e = EntryOf(f, record.ActionCreate, record.OutcomeRolledBack)
	case decide.StepChange, decide.StepLeave:
		e = EntryOf(f, record.ActionChange, record.OutcomeDone)
	case decide.StepResolve:
		e = EntryOf(f, record.ActionResolve, record.OutcomeDone)
	case decide.StepRefuseChange:
		e = EntryOf(f, record.ActionChange, record.OutcomeRefused)
		e.Generation++
		e.By, e.RequestID, e.Detail = old.Change.By, old.Change.RequestID, f.Refused.Detail
	case decide.StepDelete, decide.StepDisband:
		e = EntryOf(f, record.ActionDelete, record.OutcomeAccepted)
	case decide.StepDeleted:
		e = EntryOf(f, record.ActionDelete, record.OutcomeDone)
	case decide.StepHurry:
		e = EntryOf(f, record.ActionOrder, record.OutcomeDone)
		e.Detail = "new orders for what is being deleted: its buckets or jobs"
	case decide.StepRotateToken:
		e = EntryOf(f, record.ActionRotateToken, record.OutcomeDone)
	case decide.StepPause:
		e = EntryOf(f, record.ActionPause, record.OutcomeDone)
		if !f.Paused {
			e.Action = record.ActionResume
		}
	case decide.StepAdopted:
		e = EntryOf(f, record.ActionAdopt, record.OutcomeDone)
	case decide.StepRunState:
		e = EntryOf(f, record.ActionStart, record.OutcomeDone)
		if f.RunState == record.RunStopped {
			e.Action = record.ActionStop
		}
	default:
		return nil
	}
	return &e
}

// AuditQuery selects entries. Empty fields match everything.
type AuditQuery struct {
	// Before is the id of an entry: only older entries are listed.
	Before string
	// Limit is how many at most; 0 means 100, more than v1.MaxPage are not given.
	Limit int
	// Continue is the token of the page before; empty for the first one.
	Continue string
	// Federation is a uid or a group_id.
	Federation, By, ClusterID, RequestID string
}

func (q AuditQuery) matches(e *record.Audit) bool {
	is := func(want string, have ...string) bool { return want == "" || slices.Contains(have, want) }
	return is(q.Federation, e.Federation, e.GroupID) && is(q.By, e.By) && is(q.ClusterID, e.ClusterID) && is(q.RequestID, e.RequestID)
}

// maxAuditReading is how many entries one page reads at most, whether they match or not.
const maxAuditReading = 5000

// auditPage collects the entries of a page.
type auditPage struct {
	q       AuditQuery
	limit   int
	entries []v1.AuditEntry
	read    int
	last    string // the id of the last entry that was read
	more    bool   // there are older ones
}

// add takes the next older entry, and says whether it wants another one.
func (p *auditPage) add(kv store.KV, log *slog.Logger) bool {
	e, err := store.Decode[record.Audit](kv)
	if err != nil {
		log.Error("a record cannot be read", "error", err)
	}
	matches := err == nil && p.q.matches(e)
	if p.more = p.read == maxAuditReading || matches && len(p.entries) == p.limit; p.more {
		return false
	}
	p.read, p.last = p.read+1, record.ParseKey(kv.Key).Name
	if matches {
		p.entries = append(p.entries, v1.AuditEntry{
			ID: p.last, At: v1.Time(e.At), By: e.By, Action: string(e.Action), Outcome: string(e.Outcome),
			Federation: e.Federation, Owner: e.Owner, GroupID: e.GroupID, Generation: e.Generation,
			ClusterID: e.ClusterID, RequestID: e.RequestID, Detail: e.Detail,
		})
	}
	return true
}

// Audit lists entries, the newest first, and gives the token that continues the list: the
// administrator sees all, and a user what he did and what was done about what he owns. A page
// reads a bounded number of entries, so one with few entries, or none, can have a token. All pages
// of the administrator are of the revision of the first one. Those of a user are of the present:
// entries do not change, and only the oldest go.
func (c *Controller) Audit(ctx context.Context, caller identity.Caller, q AuditQuery) (entries []v1.AuditEntry, next string, err error) {
	list := &listing.Query{Continue: q.Continue, Owner: strings.Join([]string{q.Before, q.Federation, q.By, q.ClusterID, q.RequestID}, "\x00")}
	var at listing.Position
	if q.Continue != "" {
		if at, err = c.auditTokens.Read(caller, list, 1); err != nil {
			return nil, "", err
		}
		if epoch := c.epoch(); at.Revision != 0 && at.Epoch != epoch {
			return nil, "", c.auditTokens.Expired(caller, list, at)
		}
		q.Before = at.After[0]
	}
	page := &auditPage{q: q, limit: listing.Limit(q.Limit), entries: []v1.AuditEntry{}}
	if caller.Administrator {
		at.Revision, err = c.readAudit(ctx, page, at.Revision)
	} else {
		err = c.readOwnAudit(ctx, page, caller.Subject)
	}
	switch {
	case q.Continue != "" && errors.Is(err, store.ErrCompacted):
		return nil, "", c.auditTokens.Expired(caller, list, at)
	case err != nil:
		return nil, "", fault.Crossing(err)
	case page.more:
		next = c.auditTokens.Make(caller, list, listing.Position{Revision: at.Revision, Epoch: c.epoch(), After: []string{page.last}})
	}
	return page.entries, next, nil
}

// readAudit fills a page with entries at a revision, which it returns; 0 asks for the newest one.
func (c *Controller) readAudit(ctx context.Context, page *auditPage, revision int64) (int64, error) {
	before := ""
	if page.q.Before != "" {
		before = record.AuditKey(page.q.Before)
	}
	return c.store.BackwardsAt(ctx, revision, record.AuditPrefix, before, func(kv store.KV) bool { return page.add(kv, c.cfg.Logger) })
}

// readOwnAudit fills a page with entries that concern a user. It reads no other ones, so that not
// even its token tells when others did something.
func (c *Controller) readOwnAudit(ctx context.Context, page *auditPage, subject string) error {
	if err := c.gate.Fresh(ctx); err != nil {
		return err
	}
	full := errors.New("the page is full")
	err := c.store.Each(ctx, c.counters.audit.concerning(subject, page.q.Before, maxAuditReading+1), func(kv store.KV) error {
		if !page.add(kv, c.cfg.Logger) {
			return full
		}
		return nil
	})
	if errors.Is(err, full) {
		return nil
	}
	return err
}

func (c *Controller) epoch() (epoch string) {
	c.state.Read(func(v *view.View) { epoch = v.Epoch() })
	return epoch
}

// TrimAudit deletes the oldest entries when there are too many.
func (c *Controller) TrimAudit(ctx context.Context) error {
	const atOnce = 100
	for some := range slices.Chunk(c.counters.audit.surplus(c.cfg.KeepAudit), atOnce) {
		if _, err := c.store.Update(ctx, store.Update{Build: func(_ store.View, tx *store.Txn) error {
			for _, id := range some {
				tx.Delete(record.AuditKey(id))
			}
			return nil
		}}); err != nil {
			return fmt.Errorf("trim the audit: %w", err)
		}
	}
	return nil
}
