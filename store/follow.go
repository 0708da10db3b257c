package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

var (
	// errSilent ends a watch on which nothing was heard for too long.
	errSilent = errors.New("nothing was heard on the watch")
	// errWentBack ends a watch of a store that has lost revisions.
	errWentBack = errors.New("the store was restored")
)

// Run lists the prefixes and follows them until ctx ends, which is no error. It
// survives everything that etcd does; it returns an error only for a wrong
// configuration, or when it runs already.
func (m *Mirror) Run(ctx context.Context) error {
	scope, err := m.scope()
	if err != nil {
		return err
	}
	if !m.running.CompareAndSwap(false, true) {
		return errors.New("the mirror runs already")
	}
	defer m.running.Store(false)

	f := follower{Mirror: m, scope: scope, relist: true}
	defer f.hangUp()
	wait := newBackOff(50*time.Millisecond, 5*time.Second)
	for ctx.Err() == nil {
		progress, err := f.follow(ctx)
		if progress {
			wait.Reset()
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errSilent):
			m.log.Warn("watch is silent; it is opened anew on a new connection", "after", 3*m.cfg.Interval)
			f.hangUp()
		case errors.Is(err, ErrCompacted), errors.Is(err, errWentBack):
			m.log.Info("the prefixes are listed anew", "why", err)
			f.relist = true
		default:
			m.log.Warn("watch is interrupted", "error", err)
		}
		_ = pause(ctx, wait.NextBackOff()) // the end of ctx is the loop's condition
	}
	return nil
}

// follower is a mirror being run.
type follower struct {
	*Mirror
	scope string
	// client has connections of its own: a broken one is given up without
	// disturbing others, and a busy watch delays no other calls.
	client *clientv3.Client
	relist bool
	// cluster is the id of the etcd cluster that was heard last; replaced is set
	// when another one answered in its place.
	cluster  uint64
	replaced bool
}

func (f *follower) hangUp() {
	if f.client != nil {
		_ = f.client.Close() // its streams have ended; there is nothing to lose
		f.client = nil
	}
}

// follow lists when needed, then watches until something breaks. It tells
// whether it got as far as a watch.
func (f *follower) follow(ctx context.Context) (progress bool, err error) {
	if f.client == nil {
		if f.client, err = f.store.dial(); err != nil {
			return false, err
		}
	}
	if f.relist {
		if err := f.list(ctx); err != nil {
			return false, err
		}
		f.relist = false
	}
	w := watch{follower: f, start: time.Now()}
	err = w.run(ctx)
	f.mu.Lock()
	f.watching = false
	f.mu.Unlock()
	return w.created.Load(), err
}

// list reads all prefixes at one revision.
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
	// The lists are linearizable: a lower revision than before is no lagging
	// member but a store that was restored.
	seen := f.replace(all, revision)
	if revision < seen || f.replaced {
		f.replaced = false
		f.log.Warn("the store is not what it was: it has been restored", "seen", seen, "now", revision)
		if f.cfg.OnStale != nil {
			f.cfg.OnStale(seen, revision)
		}
	}
	return nil
}

// watch is one watch on one stream.
type watch struct {
	*follower
	created atomic.Bool
	start   time.Time
	// heard is when this watch last said anything, in nanoseconds after start.
	heard atomic.Int64
}

func (w *watch) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ownStream(clientv3.WithRequireLeader(ctx)))
	var guard sync.WaitGroup
	defer guard.Wait()
	defer cancel(nil)
	// Watch itself waits for the stream, so the watchdog starts before it.
	guard.Go(func() { w.watchdog(ctx, cancel) })

	from := w.Revision() + 1
	for resp := range w.client.Watch(ctx, w.scope, clientv3.WithPrefix(), clientv3.WithRev(from),
		clientv3.WithProgressNotify(), clientv3.WithCreatedNotify()) {
		if err := resp.Err(); err != nil {
			return translate(err)
		}
		if err := w.hear(ctx, &resp); err != nil {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: the watch ended", ErrUnavailable)
}

// hear takes over one response.
func (w *watch) hear(ctx context.Context, resp *clientv3.WatchResponse) error {
	w.heard.Store(int64(time.Since(w.start)))
	w.mu.Lock()
	w.Mirror.heard, w.watching = time.Now(), true
	seen := w.revision
	w.mu.Unlock()
	if cluster := resp.Header.ClusterId; w.cluster != 0 && w.cluster != cluster {
		w.replaced = true
		w.cluster = cluster
		return fmt.Errorf("%w: it is another cluster now", errWentBack)
	} else {
		w.cluster = cluster
	}
	if resp.Header.Revision < seen {
		if err := w.verify(ctx, seen); err != nil {
			return err
		}
	}
	switch {
	case resp.Created:
		w.created.Store(true)
	case resp.IsProgressNotify():
		// Everything up to this revision has been delivered on this stream, since
		// it carries this watch alone.
		w.apply(nil, resp.Header.Revision)
	case len(resp.Events) > 0:
		changes := make([]change, len(resp.Events))
		for i, ev := range resp.Events {
			changes[i] = change{kv: kvOf(ev.Kv), deleted: ev.Type == clientv3.EventTypeDelete}
		}
		// The header may be ahead of what was delivered while the watch catches up.
		w.apply(changes, changes[len(changes)-1].kv.ModRevision)
	}
	return nil
}

// verify tells a restored store from a member that lags behind, by a
// linearizable read.
func (w *watch) verify(ctx context.Context, seen int64) error {
	resp, err := try(ctx, w.store, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return w.client.Get(ctx, w.scope, clientv3.WithPrefix(), clientv3.WithCountOnly())
	})
	if err != nil {
		return translate(err)
	}
	if resp.Header.Revision < seen {
		return fmt.Errorf("%w: revision %d after %d", errWentBack, resp.Header.Revision, seen)
	}
	return nil
}

// watchdog asks for progress, which also carries a quiet mirror past
// compactions, and ends the watch when nothing comes back: a half-open
// connection and a frozen member look exactly like a quiet store.
func (w *watch) watchdog(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(w.cfg.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if time.Since(w.start)-time.Duration(w.heard.Load()) > 3*w.cfg.Interval {
				cancel(errSilent)
				return
			}
		case <-w.nudge:
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

// ownStream keeps a watch from sharing a gRPC stream with others, which would
// delay its progress until all of them have caught up: etcd's client puts
// watches with the same outgoing metadata on one stream.
func ownStream(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "oscarfed-watch", rand.Text())
}
