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

// History tells fn every change of the keys with a prefix from revision from to revision to, both
// included: once for each revision that changed any, in order, with all its events together. It is
// a real watch of the past, not a list: what was written and deleted in between is told too. The
// store must have reached from; a revision to that is not reached yet is waited for until ctx
// ends.
//
// fn may take its time. A stream that breaks is opened anew where it broke. History ends with
// ErrCompacted when etcd has forgotten a part of that time, with ErrUnavailable when nothing was
// received for Config.Deadline, with the cause of ctx, or with what fn returned.
func (s *Store) History(ctx context.Context, prefix string, from, to int64, fn func(revision int64, events []Event) error) error {
	if from < 1 || to < from {
		return fmt.Errorf("history of %s: revisions %d to %d: the first revision is 1", prefix, from, to)
	}
	h := history{store: s, prefix: prefix, from: from, to: to, tell: fn}
	if err := h.run(ctx); err != nil && !errors.Is(err, errHistoryRead) {
		return fmt.Errorf("history of %s from revision %d to %d: %w", prefix, from, to, err)
	}
	return nil
}

// history is one that is being read.
type history struct {
	store    *Store
	prefix   string
	from, to int64
	tell     func(revision int64, events []Event) error
	// told is the revision up to which everything was told; 0 before the first answer.
	told int64
	// silence ends the history when it runs out. It runs while etcd is waited for.
	silence *time.Timer
}

func (h *history) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	silence := h.store.cfg.Deadline
	h.silence = time.AfterFunc(silence, func() { cancel(fmt.Errorf("%w: nothing was received for %v", ErrUnavailable, silence)) })
	defer h.silence.Stop()

	wait := newBackOff(historyAsk, time.Second)
	for {
		before := h.told
		err := h.watch(ctx)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if !errors.Is(err, errBrokenWatch) {
			return err
		}
		if h.told > before {
			wait.Reset()
		}
		_ = pause(ctx, wait.NextBackOff()) // the end of ctx is seen by the next watch
	}
}

// errBrokenWatch says that a stream ended which can be opened anew.
var errBrokenWatch = errors.New("the watch ended")

// watch reads on one stream.
func (h *history) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ownStream(ctx))
	defer cancel()
	// Nothing marks the end of what the store holds, so it is asked for: a progress
	// notification says that everything up to its revision was delivered.
	ask := time.NewTicker(historyAsk)
	defer ask.Stop()
	// Not after what was told: see watchFrom.
	watch := h.store.client.Watch(ctx, h.prefix, clientv3.WithPrefix(), watchFrom(max(h.from, h.told)),
		clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
	created := false
	for {
		select {
		case resp, open := <-watch:
			if !open {
				return errBrokenWatch
			}
			if err := h.receive(&resp); err != nil {
				return err
			}
			h.silence.Reset(h.store.cfg.Deadline)
			if !resp.Created {
				continue
			}
			created = true
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

// receive takes over one response. It ends with errHistoryRead.
func (h *history) receive(resp *clientv3.WatchResponse) error {
	if err := resp.Err(); err != nil {
		if brokenStream(err) {
			return errBrokenWatch
		}
		return translate(err)
	}
	// All events of a revision come in one response.
	for events := resp.Events; len(events) > 0; {
		revision, n := events[0].Kv.ModRevision, 1
		for n < len(events) && events[n].Kv.ModRevision == revision {
			n++
		}
		if err := h.take(revision, events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	if resp.IsProgressNotify() {
		h.told = max(h.told, resp.Header.Revision)
	}
	if h.told >= h.to {
		return errHistoryRead
	}
	return nil
}

// take tells one revision, unless it was told before.
func (h *history) take(revision int64, events []*clientv3.Event) error {
	switch {
	case revision <= h.told:
		return nil
	case revision > h.to:
		return errHistoryRead
	}
	h.told = revision
	out := make([]Event, len(events))
	for i, ev := range events {
		out[i] = Event{KV: kvOf(ev.Kv), Deleted: ev.Type == clientv3.EventTypeDelete}
	}
	h.silence.Stop() // fn may take its time
	defer h.silence.Reset(h.store.cfg.Deadline)
	return h.tell(revision, out)
}
