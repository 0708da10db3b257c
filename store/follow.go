package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// errSilent ends a watch on which nothing was received for too long, errBehind one that has not shown for
// too long what the store has.
var (
	errSilent = errors.New("nothing was received on the watch")
	errBehind = errors.New("the watch is behind the store")
)

const (
	// patience is how long a caller waits for a revision until the watch is moved to another member.
	patience = 2 * time.Second
	// firstMove and lastMove bound the pause between two such moves. Each lists everything again, and when all
	// members are slow none helps.
	firstMove, lastMove = 5 * time.Second, 5 * time.Minute
	// headStart is what a member has before the next one is asked as well. Many that come back at once wait longer
	// for the first, and are not to ask all.
	headStart = time.Second
)

// Run lists and follows until ctx ends, which is no error. It survives everything
// that etcd does; it returns an error only for a wrong configuration, or when it
// runs already.
//
// Whenever the watch breaks, for whatever reason, everything is listed again.
// Going on from the last revision would be cheaper and wrong: after a compaction
// deletions are lost, and after the restore of an older snapshot the revisions
// belong to another history.
func (m *Mirror) Run(ctx context.Context) error {
	scope, err := m.scope()
	if err != nil {
		return err
	}
	if !m.running.CompareAndSwap(false, true) {
		return errors.New("the mirror runs already")
	}
	defer m.running.Store(false)
	m.store.runs(m, true)
	defer m.store.runs(m, false)

	f := follower{Mirror: m, scope: scope}
	defer f.hangUp()
	wait := newBackOff(50*time.Millisecond, 5*time.Second)
	for ctx.Err() == nil {
		lived, err := f.follow(ctx)
		if lived {
			wait.Reset()
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errSilent):
			m.log.Warn("watch is silent; it is opened anew on a new connection", "after", 3*m.cfg.Interval)
			f.silent = true
			f.hangUp()
		default:
			m.log.Warn("watch is interrupted", "error", err)
		}
		if m.several() {
			f.hangUp() // the connection is to one member
		}
		_ = pause(ctx, wait.NextBackOff()) // the end of ctx is the loop's condition
	}
	return nil
}

// runs keeps the list of the mirrors that run.
func (s *Store) runs(m *Mirror, now bool) {
	s.mirrorsMu.Lock()
	defer s.mirrorsMu.Unlock()
	s.mirrors = slices.DeleteFunc(s.mirrors, func(other *Mirror) bool { return other == m })
	if now {
		s.mirrors = append(s.mirrors, m)
	}
}

// follower is a mirror being run.
type follower struct {
	*Mirror
	scope string
	// client has connections of its own: a broken one is given up without
	// disturbing others, and a busy watch delays no other calls. It is to one member, where
	// there are several. shared says that it is the store's.
	client *clientv3.Client
	shared bool
	// silent says that a watch has fallen silent.
	silent bool
	// moved is when the watch was moved last for being behind, and pause what had to pass before.
	moved time.Time
	pause time.Duration
}

// several says whether there are members to choose from.
func (m *Mirror) several() bool { return len(m.store.cfg.Endpoints) > 1 }

// connect connects to a member that answers: one at random, or the next one that is sooner.
func (f *follower) connect(ctx context.Context) (*clientv3.Client, error) {
	f.shared = f.cfg.Small && !f.several() && !f.silent
	if f.shared {
		return f.store.client, nil
	}
	if !f.several() {
		return f.store.dial()
	}
	endpoints := slices.Clone(f.store.cfg.Endpoints)
	rand.Shuffle(len(endpoints), func(i, j int) { endpoints[i], endpoints[j] = endpoints[j], endpoints[i] }) //nolint:gosec // spreads load, guards nothing
	type outcome struct {
		client *clientv3.Client
		err    error
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	outcomes := make(chan outcome, len(endpoints))
	for i, endpoint := range endpoints {
		go func() {
			client, err := f.answering(ctx, endpoint, time.Duration(i)*headStart)
			outcomes <- outcome{client, err}
		}()
	}
	var best *clientv3.Client
	var last error
	for range endpoints {
		o := <-outcomes
		switch {
		case o.err != nil:
			last = o.err
		case best == nil:
			best = o.client
			done()
		default:
			_ = o.client.Close() // it has carried one read
		}
	}
	if best == nil {
		return nil, last
	}
	return best, nil
}

// answering connects to one member after a pause, and returns when it has answered a linearizable read.
func (f *follower) answering(ctx context.Context, endpoint string, after time.Duration) (*clientv3.Client, error) {
	if err := pause(ctx, after); err != nil {
		return nil, err
	}
	client, err := f.store.dialTo([]string{endpoint})
	if err != nil {
		return nil, err
	}
	_, err = try(ctx, f.store, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return client.Get(ctx, f.cfg.Prefixes[0]) // which its user may read
	})
	if err = translate(err); err != nil && !errors.Is(err, ErrDenied) {
		_ = client.Close() // its read has failed; there is nothing to lose
		return nil, fmt.Errorf("etcd at %s: %w", endpoint, err)
	}
	return client, nil
}

// moves says whether a watch that is behind goes to another member now.
func (f *follower) moves(now time.Time) bool {
	since := now.Sub(f.moved)
	switch {
	case !f.several() || since < f.pause:
		return false
	case since > 2*lastMove:
		f.pause = firstMove
	default:
		f.pause = min(2*f.pause, lastMove)
	}
	f.moved = now
	return true
}

func (f *follower) hangUp() {
	if f.client != nil && !f.shared {
		_ = f.client.Close() // its streams have ended; there is nothing to lose
	}
	f.client = nil
}

// follow lists, then watches until something breaks. It tells whether the watch
// has worked meanwhile.
func (f *follower) follow(ctx context.Context) (lived bool, err error) {
	if f.client == nil {
		if f.client, err = f.connect(ctx); err != nil {
			return false, err
		}
	}
	if err := f.list(ctx); err != nil {
		return false, err
	}
	w := watch{follower: f, start: time.Now()}
	f.mu.Lock()
	f.heard, f.sharing = w.start, f.shared
	f.mu.Unlock()
	err = w.run(ctx)
	f.mu.Lock()
	f.watching = false
	f.mu.Unlock()
	return w.lived, err
}

// list reads everything at one revision.
func (f *follower) list(ctx context.Context) error {
	var all []KV
	var revision int64
	for _, prefix := range f.cfg.Prefixes {
		kvs, at, err := f.store.list(ctx, f.client, prefix, revision)
		if err != nil {
			return fmt.Errorf("list %s: %w", prefix, err)
		}
		revision = at
		all = append(all, kvs...)
	}
	f.replace(all, revision)
	return nil
}

// watch is one watch on one stream.
type watch struct {
	*follower
	created atomic.Bool
	lived   bool
	start   time.Time
}

func (w *watch) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ownStream(clientv3.WithRequireLeader(ctx)))
	var guard sync.WaitGroup
	defer guard.Wait()
	defer cancel(nil)
	// Watch itself waits for the stream, so the watchdog starts before it.
	guard.Go(func() { w.watchdog(ctx, cancel) })

	options := []clientv3.OpOption{watchFrom(w.Revision()), clientv3.WithCreatedNotify()}
	if !w.shared {
		options = append(options, clientv3.WithProgressNotify())
	}
	if strings.HasSuffix(w.scope, "/") {
		options = append(options, clientv3.WithPrefix())
	}
	for resp := range w.client.Watch(ctx, w.scope, options...) {
		if err := resp.Err(); err != nil {
			return translate(err)
		}
		w.receive(&resp)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: the watch ended", ErrUnavailable)
}

// receive takes over one response.
func (w *watch) receive(resp *clientv3.WatchResponse) {
	w.mu.Lock()
	w.heard, w.watching = time.Now(), true
	w.mu.Unlock()
	switch {
	case resp.Created:
		w.created.Store(true)
	case resp.IsProgressNotify():
		// Everything up to this revision has been delivered on this stream, since
		// it carries this watch alone.
		w.lived = true
		w.apply(nil, resp.Header.Revision)
	case len(resp.Events) > 0:
		w.lived = true
		changes := make([]change, len(resp.Events))
		for i, ev := range resp.Events {
			changes[i] = change{kv: kvOf(ev.Kv), deleted: ev.Type == clientv3.EventTypeDelete}
		}
		// The header may be ahead of what was delivered while the watch catches up.
		w.apply(changes, changes[len(changes)-1].kv.ModRevision)
	}
}

// watchdog asks for progress when nothing was heard for an interval, so that a quiet mirror
// knows how far it has seen, and ends the watch when nothing comes back: a half-open connection
// and a frozen member look exactly like a quiet store. An etcd that tells its progress more often
// than that is not asked, nor one that confirms.
func (w *watch) watchdog(ctx context.Context, cancel context.CancelCauseFunc) {
	timer := time.NewTimer(w.cfg.Interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			silent := w.silence()
			switch {
			case silent < w.cfg.Interval:
				timer.Reset(w.cfg.Interval - silent)
				continue
			case silent > 3*w.cfg.Interval:
				cancel(errSilent)
				return
			}
			timer.Reset(w.cfg.Interval)
		case <-w.nudge:
		case <-w.late:
			if time.Since(w.start) > patience && w.moves(time.Now()) {
				cancel(errBehind)
				return
			}
		}
		if !w.created.Load() {
			continue // there is no watch yet that could have progressed
		}
		askCtx, done := context.WithTimeout(ctx, w.cfg.Interval)
		// An error shows by the silence that follows.
		_ = w.client.RequestProgress(askCtx)
		done()
	}
}
