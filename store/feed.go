package store

import (
	"context"
	"maps"
	"slices"

	"github.com/oscarfed/oscarfed/internal/signal"
)

// Feed tells one consumer which keys of a mirror have changed. Changes of a key that come while
// the consumer is busy are told once; the mirror does not wait for it.
type Feed struct {
	mirror *Mirror
	wake   signal.Signal
	// dirty and fresh belong to the mirror's mu. fresh is set until the first Next.
	dirty map[string]struct{}
	fresh bool
}

// Feed makes a feed of its own for one consumer. It costs memory for the keys
// that were not fetched, until it is closed.
func (m *Mirror) Feed() *Feed {
	f := &Feed{mirror: m, wake: signal.New(), dirty: make(map[string]struct{}), fresh: true}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.feeds[f] = struct{}{}
	return f
}

// Close stops the feed from gathering.
func (f *Feed) Close() {
	f.mirror.mu.Lock()
	defer f.mirror.mu.Unlock()
	delete(f.mirror.feeds, f)
}

// Next waits for changes and returns the keys, sorted, that were written or
// deleted since the last call. What they hold now is in the mirror, and a key
// that is not there was deleted. The first call waits for the mirror to be
// synced and returns all its keys, perhaps none. It ends with the cause of ctx.
func (f *Feed) Next(ctx context.Context) ([]string, error) {
	if err := f.Wait(ctx); err != nil {
		return nil, err
	}
	keys, _ := f.Take()
	return keys, nil
}

// Wait waits until Take has something to give, or the first listing is done. It
// ends with the cause of ctx.
func (f *Feed) Wait(ctx context.Context) error {
	select {
	case <-f.mirror.synced:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for !f.pending() {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Take returns at once what Next would, perhaps nothing, together with the
// mirror at exactly the revision that the keys lead to: for a consumer that keeps
// a derived copy which must itself be consistent at one revision.
func (f *Feed) Take() ([]string, *MirrorView) {
	f.mirror.mu.Lock()
	fresh, dirty := f.fresh, f.dirty
	all := f.mirror.snap()
	if !fresh && len(dirty) == 0 {
		f.mirror.mu.Unlock()
		return nil, all
	}
	f.fresh, f.dirty = false, make(map[string]struct{})
	f.mirror.mu.Unlock()

	if fresh {
		all.tree.Ascend(func(i item) bool {
			dirty[i.key] = struct{}{}
			return true
		})
	}
	keys := slices.AppendSeq(make([]string, 0, len(dirty)), maps.Keys(dirty))
	slices.Sort(keys)
	return keys, all
}

// pending says whether Take has something to give.
func (f *Feed) pending() bool {
	f.mirror.mu.Lock()
	defer f.mirror.mu.Unlock()
	return f.fresh || len(f.dirty) > 0
}

// dirty notes a changed key for every feed. It needs mu.
func (m *Mirror) dirty(key string) {
	for f := range m.feeds {
		f.dirty[key] = struct{}{}
	}
}

// wakeFeeds wakes the consumers that have something to fetch. It needs mu.
func (m *Mirror) wakeFeeds() {
	for f := range m.feeds {
		if len(f.dirty) > 0 {
			f.wake.Send()
		}
	}
}
