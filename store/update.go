package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.opentelemetry.io/otel/attribute"

	"github.com/oscarfed/oscarfed/internal/tracing"
)

// Update describes one change of the store.
type Update struct {
	// Keys are read at one revision before the first try, and again with every
	// try that fails. Build may expect them to be as it saw them.
	Keys []string
	// From, when set, is what the caller takes Keys to hold, from a mirror: the first try is built
	// on it, without a read. It is a guess. Build must expect every key that it decides by, so that
	// a wrong guess fails in etcd and is built anew on what is there. What etcd has no say in is
	// not believed: an error, an expectation that does not hold, or that nothing is to be done, on a
	// guess is looked at again after a read. With a Marker its revision must be that of a read,
	// after which nobody but this update writes the marker with its id: see View.With.
	From *View
	// Followed says that the caller is told of every change of the keys of From, and then decides
	// anew. So it is believed that nothing is to be done on the guess: there is no read.
	Followed bool
	// RequestID and Marker make an unknown outcome known. The record at Marker has a field
	// request_id, and every transaction of this update writes it with RequestID. When a try has
	// been sent and the marker, written since, has our id, the write is done. A marker that others
	// write or remove is read in its history when an answer was lost; one of our own spares that.
	//
	// With an empty Marker an unknown outcome is followed by a fresh read and another Build: right
	// for callers that decide by the state alone, and then find nothing left to do.
	RequestID, Marker string
	// Build decides what to write from the view. It is called afresh for each
	// try and must not keep what it decided before. A transaction without
	// effective writes means that nothing is to be done. An error ends the
	// update and is returned as it is.
	Build func(v View, tx *Txn) error
}

// Result tells how an Update ended.
type Result struct {
	// Revision of the transaction that wrote, or of the view when nothing was to
	// be done.
	Revision int64
	// Written is false when there was nothing to do.
	Written bool
	// View is what the last Build decided on; after an outcome that was found
	// out by the marker, what was read then.
	View View
}

// Update applies a change. It is tried until it is applied, found to be applied
// already, or found to be needless; until Build or an expectation ends it; or
// until Config.Deadline. Its errors:
//
//   - what Build returned;
//   - ErrExists, *ConflictError, ErrSessionLost: an expectation does not hold;
//   - ErrTooLarge, ErrFull, ErrDenied: etcd does not take it;
//   - ErrUnavailable: no try was applied, none will be;
//   - ErrUnknownOutcome, alone or together with one of the above: a try may
//     have been applied, or may still be.
func (s *Store) Update(ctx context.Context, u Update) (res Result, err error) {
	ctx, end := tracing.Start(ctx, "etcd transaction")
	defer func() {
		tracing.Note(ctx, attribute.Int64("etcd.revision", res.Revision), attribute.Bool("etcd.written", res.Written))
		end(err)
	}()
	return s.update(ctx, u)
}

func (s *Store) update(ctx context.Context, u Update) (Result, error) {
	if u.Build == nil || (u.Marker == "") != (u.RequestID == "") || u.Followed && u.From == nil {
		return Result{}, errors.New("an update needs Build, Marker and RequestID together, and From with Followed")
	}
	if why := s.refused.Load(); why != nil {
		return Result{}, *why
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Deadline)
	defer cancel()

	keys := slices.Clone(u.Keys)
	if u.Marker != "" {
		keys = append(keys, u.Marker)
	}
	slices.Sort(keys)
	a := attempt{store: s, update: u, keys: slices.Compact(keys)}
	if u.From != nil {
		if u.Marker != "" && !u.From.fromRead {
			return Result{}, errors.New("an update with Marker takes no guess whose revision was not read")
		}
		switch plan, err := a.plan(*u.From); {
		case err == nil && plan != nil:
			return a.run(ctx, *u.From, plan)
		case err == nil && u.Followed:
			return Result{Revision: u.From.Revision, View: *u.From}, nil
		}
	}
	var view View
	if len(a.keys) > 0 {
		var err error
		if view, err = s.Read(ctx, a.keys...); err != nil {
			return Result{}, err
		}
	}
	return a.run(ctx, view, nil)
}

// attempt is one Update under way.
type attempt struct {
	store  *Store
	update Update
	keys   []string
	// doubts are the tries whose outcome is not known; the first was sent after the
	// revision since.
	doubts []*plan
	since  int64
	// full is set once etcd has said that it takes no more.
	full error
}

// run sends the plan that was guessed on the view, if any, and then what it plans on what is there.
func (a *attempt) run(ctx context.Context, view View, guessed *plan) (Result, error) {
	wait := newBackOff(2*time.Millisecond, 50*time.Millisecond)
	for conflicts := 0; ; {
		plan := guessed
		if plan == nil {
			var err error
			if plan, err = a.plan(view); err != nil {
				return Result{View: view}, a.doubt(err)
			}
		}
		if plan == nil {
			return Result{Revision: view.Revision, View: view}, nil
		}

		if len(a.doubts) == 0 {
			a.since = view.Revision
		}
		next, written, err := a.send(ctx, plan)
		if err != nil {
			return Result{View: view}, a.doubt(err)
		}
		if written {
			return Result{Revision: next.Revision, Written: true, View: view}, nil
		}
		revision, ours, err := a.ours(ctx, view, next)
		if err != nil {
			return Result{View: view}, a.doubt(err)
		}
		if ours {
			return Result{Revision: revision, Written: true, View: next}, nil
		}
		if a.full != nil {
			if plan.leftNoTrace(view, next) {
				return Result{View: next}, a.doubt(a.full)
			}
			a.doubts = append(a.doubts, plan)
		}
		a.forget(next)
		view = next
		if guessed != nil {
			guessed = nil
			continue
		}
		// The first conflict is answered at once: its values are the newest.
		if conflicts++; conflicts > 1 {
			if err := pause(ctx, wait.NextBackOff()); err != nil {
				return Result{View: view}, a.doubt(fmt.Errorf("%w: the update lost every one of %d tries to others: %w", ErrUnavailable, conflicts, err))
			}
		}
	}
}

// plan plans one try on a view; nil when nothing is to be done.
func (a *attempt) plan(view View) (*plan, error) {
	tx := a.newTxn(view)
	if err := a.update.Build(view, tx); err != nil {
		return nil, err
	}
	writes := tx.effective()
	if err := a.check(tx, writes); err != nil || len(writes) == 0 {
		return nil, err
	}
	if a.full != nil {
		return nil, a.full
	}
	if err := tx.unmet(); err != nil {
		return nil, err
	}
	return planOf(tx, writes, a.keys)
}

// check finds mistakes in how the transaction was built.
func (a *attempt) check(tx *Txn, writes []write) error {
	if tx.err != nil {
		return tx.err
	}
	if a.update.Marker == "" || len(writes) == 0 {
		return nil
	}
	w := tx.writes[a.update.Marker]
	if w == nil || w.delete || requestID(w.value) != a.update.RequestID {
		return fmt.Errorf("marker %s: the transaction does not write it with request_id %q", a.update.Marker, a.update.RequestID)
	}
	return nil
}

// send commits a plan. When it was not applied, or that is not known, it returns the present
// values. An error is final.
func (a *attempt) send(ctx context.Context, p *plan) (View, bool, error) {
	s := a.store
	resp, err := try(ctx, s, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).If(p.compares...).Then(p.writes...).Else(p.gets()...).Commit()
	})
	switch {
	case err == nil && resp.Succeeded:
		return View{Revision: resp.Header.Revision}, true, nil
	case err == nil:
		return viewOf(p.reads, resp), false, nil
	case errors.Is(translate(err), ErrFull):
		// Either it was refused, or it is the one that passed the quota while it was
		// applied: etcd says the same to both. It has been decided, so a read tells.
		view, rerr := s.Read(ctx, p.witnesses()...)
		if rerr != nil {
			a.doubts = append(a.doubts, p)
			return View{}, false, fmt.Errorf("%w, after %w", rerr, translate(err))
		}
		a.full = translate(err)
		return view, false, nil
	case surelyNotApplied(err) && !worthRepeating(err):
		return View{}, false, translate(err)
	case !surelyNotApplied(err):
		a.doubts = append(a.doubts, p)
	}
	if cause := pause(ctx, newBackOff(20*time.Millisecond, time.Second).NextBackOff()); cause != nil {
		return View{}, false, because(translate(err), cause)
	}
	view, rerr := s.Read(ctx, p.reads...)
	if rerr != nil {
		return View{}, false, fmt.Errorf("%w, after %w", rerr, err)
	}
	return view, false, nil
}

// witnesses are the keys of the plan's reads with one, at least, that it puts.
func (p *plan) witnesses() []string {
	known := slices.ContainsFunc(p.puts, func(key string) bool { return slices.Contains(p.reads, key) })
	if known || len(p.puts) == 0 || len(p.reads) >= maxOps {
		return p.reads
	}
	return append(slices.Clone(p.reads), p.puts[0])
}

// leftNoTrace says whether the plan was surely not applied between two views: a
// key that it puts was not written.
func (p *plan) leftNoTrace(before, after View) bool {
	return slices.ContainsFunc(p.puts, func(key string) bool {
		return after.read(key) && after.modRevision(key) <= before.Revision
	})
}

// ours says whether a try of this update was applied, and by which revision. A marker that had our
// id before it was sent proves nothing: it must have been written after the last view, where no
// try was seen to be applied. What the marker holds now is not enough either when an answer was
// lost: meanwhile others may have written it, or what we made may have been removed. Then its
// history tells, and where that is compacted the outcome stays unknown.
func (a *attempt) ours(ctx context.Context, last, now View) (int64, bool, error) {
	kv, ok := now.KV(a.update.Marker)
	switch {
	case ok && kv.ModRevision > last.Revision && requestID(kv.Value) == a.update.RequestID:
		return kv.ModRevision, true, nil
	case a.update.Marker == "" || len(a.doubts) == 0 || now.Revision <= a.since || ok && kv.ModRevision <= a.since:
		return 0, false, nil // it was not written
	}
	var revision int64
	err := a.store.History(ctx, a.update.Marker, a.since+1, now.Revision, func(r int64, events []Event) error {
		for _, ev := range events {
			if ev.Key == a.update.Marker && !ev.Deleted && requestID(ev.Value) == a.update.RequestID {
				revision = r
			}
		}
		return nil
	})
	return revision, revision != 0, err
}

// forget drops the doubts that the view resolves: with a marker, a try that is
// not recorded there and compares a revision that has passed was not applied,
// and never will be.
func (a *attempt) forget(v View) {
	if a.update.Marker == "" {
		return
	}
	a.doubts = slices.DeleteFunc(a.doubts, func(p *plan) bool { return p.hopeless(v) })
}

// doubt adds to an error that a try may have been applied.
func (a *attempt) doubt(err error) error {
	if len(a.doubts) == 0 {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

func requestID(value []byte) string {
	var r struct {
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(value, &r) != nil {
		return ""
	}
	return r.RequestID
}
