package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Event is one change of one key.
type Event struct {
	// KV is the key as it was written. Of a deleted key only Key and ModRevision,
	// the revision that deleted it, are set.
	KV
	Deleted bool
}

// errHistoryRead ends a watch that has told everything that was asked for.
var errHistoryRead = errors.New("history is read")

// History tells fn every change of the keys with a prefix from revision from to
// revision to, both included: once for each revision that changed any, in order,
// with all its events together. It is a real watch of the past, not a list: what
// was written and deleted in between is told too. A revision to that is not
// reached yet is waited for until ctx ends.
//
// It ends with ErrCompacted when etcd has forgotten a part of that time, with
// ErrUnavailable when nothing was heard for Config.Deadline, with the cause of
// ctx, or with what fn returned.
func (s *Store) History(ctx context.Context, prefix string, from, to int64, fn func(revision int64, events []Event) error) error {
	if from < 1 || to < from {
		return fmt.Errorf("history of %s: revisions %d to %d: the first revision is 1", prefix, from, to)
	}
	h := history{store: s, to: to, tell: fn}
	if err := h.run(ctx, prefix, from); err != nil && !errors.Is(err, errHistoryRead) {
		return fmt.Errorf("history of %s from revision %d to %d: %w", prefix, from, to, err)
	}
	return nil
}

// history gathers the events of one revision until it is complete.
type history struct {
	store    *Store
	to       int64
	tell     func(revision int64, events []Event) error
	revision int64
	events   []Event
}

func (h *history) run(ctx context.Context, prefix string, from int64) error {
	ctx, cancel := context.WithCancelCause(ownStream(clientv3.WithRequireLeader(ctx)))
	defer cancel(nil)
	patience := h.store.cfg.Deadline
	idle := time.AfterFunc(patience, func() { cancel(fmt.Errorf("%w: nothing was heard for %v", ErrUnavailable, patience)) })
	defer idle.Stop()

	// Nothing marks the end of what the store holds, so it is asked for: a progress
	// notification says that everything up to its revision was delivered.
	ask := time.NewTicker(historyAsk)
	defer ask.Stop()
	// Watch itself waits for the stream; idle ends that too.
	watch := h.store.client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from),
		clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
	created := false
	for {
		select {
		case resp, open := <-watch:
			if !open {
				return h.closed(ctx)
			}
			idle.Reset(patience)
			created = created || resp.Created
			if err := h.hear(&resp); err != nil {
				return err
			}
			if !resp.Created {
				continue
			}
		case <-ask.C:
		}
		if created {
			askCtx, done := context.WithTimeout(ctx, h.store.cfg.RequestTimeout)
			_ = h.store.client.RequestProgress(askCtx) // an error shows by the silence that follows
			done()
		}
	}
}

// historyAsk is the pause between two questions for progress: etcd leaves one
// unanswered while the watch is still behind.
const historyAsk = 50 * time.Millisecond

func (h *history) closed(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: the watch ended", ErrUnavailable)
}

// hear takes over one response. It ends with errHistoryRead.
func (h *history) hear(resp *clientv3.WatchResponse) error {
	if err := resp.Err(); err != nil {
		return translate(err)
	}
	for _, ev := range resp.Events {
		if ev.Kv.ModRevision != h.revision {
			if err := h.flush(); err != nil {
				return err
			}
		}
		if ev.Kv.ModRevision > h.to {
			return errHistoryRead
		}
		h.revision = ev.Kv.ModRevision
		h.events = append(h.events, Event{KV: kvOf(ev.Kv), Deleted: ev.Type == clientv3.EventTypeDelete})
	}
	if !resp.IsProgressNotify() {
		return nil
	}
	// Everything up to the notification's revision was delivered.
	if err := h.flush(); err != nil {
		return err
	}
	if resp.Header.Revision >= h.to {
		return errHistoryRead
	}
	return nil
}

// flush tells the revision that was gathered, if there is one.
func (h *history) flush() error {
	if len(h.events) == 0 {
		return nil
	}
	events := h.events
	h.events = nil
	return h.tell(h.revision, events)
}
