package store

import (
	"fmt"
	"slices"
	"sort"
)

// former remembers what keys held before each of the latest changes, so that a mirror can tell
// what was there at a revision that has passed.
type former struct {
	// entries are in the order of their revisions. Entries are never written again, so a reader
	// may keep a part of the slice.
	entries []formerValue
	// dropped counts the entries that the array behind entries has in front of it.
	dropped int
	bytes   int
	most    int
	// since is the oldest revision that is known.
	since int64
	// gaps are ranges of revisions, both ends excluded, of which no change was received.
	gaps [][2]int64
}

// formerValue is what a key held before the change at a revision; nil for nothing.
type formerValue struct {
	revision int64
	key      string
	kv       *KV
}

// formerOverhead estimates the bytes of an entry besides its value.
const formerOverhead = 160

func (v formerValue) size() int {
	size := formerOverhead + len(v.key)
	if v.kv != nil {
		size += len(v.kv.Value)
	}
	return size
}

// add remembers what a key held before a change, and forgets the oldest changes beyond the limit.
func (f *former) add(revision int64, key string, old *KV) {
	entry := formerValue{revision: revision, key: key, kv: old}
	f.entries = append(f.entries, entry)
	f.bytes += entry.size()
	n := 0
	for f.bytes > f.most && n < len(f.entries) {
		f.bytes -= f.entries[n].size()
		f.since = max(f.since, f.entries[n].revision)
		n++
	}
	if n == 0 {
		return
	}
	f.entries = f.entries[n:]
	if f.dropped += n; f.dropped > len(f.entries) {
		f.entries, f.dropped = slices.Clone(f.entries), 0
	}
	f.gaps = slices.DeleteFunc(f.gaps, func(gap [2]int64) bool { return gap[1] <= f.since })
}

// restart forgets everything that was before a revision.
func (f *former) restart(revision int64) {
	*f = former{most: f.most, since: revision}
}

// skip notes that no change between two revisions was received: their difference is added at the
// second one.
func (f *former) skip(from, to int64) {
	if to > from+1 {
		f.gaps = append(f.gaps, [2]int64{from, to})
	}
}

// knows says whether the changes after a revision are remembered.
func (f *former) knows(revision int64) bool {
	return revision >= f.since && !slices.ContainsFunc(f.gaps, func(gap [2]int64) bool { return gap[0] < revision && revision < gap[1] })
}

// after are the entries with a revision above from.
func (f *former) after(from int64) []formerValue {
	return f.entries[sort.Search(len(f.entries), func(i int) bool { return f.entries[i].revision > from }):]
}

// Former tells which of the remembered keys were written or deleted after the revision from and
// up to the revision to, and what each held at from; nil stands for nothing. The error is
// ErrCompacted when the mirror does not know it any more.
func (m *Mirror) Former(from, to int64) (map[string]*KV, error) {
	if from >= to {
		return nil, nil
	}
	m.mu.Lock()
	known := m.former != nil && m.former.knows(from)
	var entries []formerValue
	if known {
		entries = m.former.after(from)
	}
	m.mu.Unlock()
	if !known {
		return nil, fmt.Errorf("%w: the mirror does not remember revision %d", ErrCompacted, from)
	}
	out := map[string]*KV{}
	for _, entry := range entries {
		if entry.revision > to {
			break
		}
		if _, earlier := out[entry.key]; !earlier {
			out[entry.key] = entry.kv
		}
	}
	return out, nil
}

// remember notes what a key held before a change. It needs mu.
func (m *Mirror) remember(revision int64, key string, old item, had bool) {
	if m.former == nil || !m.cfg.Remember(key) {
		return
	}
	var kv *KV
	if had {
		kv = new(old.value())
	}
	m.former.add(revision, key, kv)
}

// rememberListing notes that a listing has taken the place of the changes between two revisions.
// It needs mu. The first listing has nothing before it, and a restored store has another history.
func (m *Mirror) rememberListing(seen, now int64, restored bool) {
	switch {
	case m.former == nil:
	case seen == 0 || restored:
		m.former.restart(now)
	default:
		m.former.skip(seen, now)
	}
}
