package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/btree"

	"github.com/oscarfed/oscarfed/internal/signal"
	"github.com/oscarfed/oscarfed/store/record"
)

// MirrorConfig says what a mirror holds.
type MirrorConfig struct {
	// Prefixes are mirrored, all at the same revision. What does not end in a slash
	// is a single key. Several are followed by one watch of the path that they have
	// in common, which the user must be allowed to read.
	Prefixes []string
	// Skip, when set, names keys that are not kept and not reported.
	Skip func(key string) bool
	// OnRelist, when set, is told of each listing after the first, before anybody is
	// shown it: nothing is decided on it before. It must not block, nor call the
	// mirror.
	OnRelist func(Relist)
	// PackJobs keeps the records of queued jobs as record.QueuedJob.
	PackJobs bool
	// Tap, when set, is told of everything that is listed and of every change after
	// it, in order, also of what Skip leaves out.
	Tap Tap
	// Remember, when set, names keys of which the mirror remembers what they held before: see
	// Former. RememberBytes bounds what it needs for that; default 32 MiB.
	Remember      func(key string) bool
	RememberBytes int
	// Interval is after how long a silence progress is asked for; default 5 s. When nothing at all is received for
	// three of them, the watch is opened anew on a new connection.
	Interval time.Duration
	// Small says that little is watched: where there is one endpoint, the watch needs no connection of its own until
	// it has fallen silent once, and renewals of sessions tell that it lives.
	Small bool
	// Logger defaults to that of the store.
	Logger *slog.Logger
}

// Tap gets all that a mirror receives. It must not block, nor call the mirror.
type Tap interface {
	Listed(kvs []KV)
	Changed(kv KV, deleted bool)
}

// Relist is one listing of a mirror that had listed before.
type Relist struct {
	Before, Now *MirrorView
	// Restored says that the store was restored from a backup for certain: it is
	// behind, or has a key of the days before that was not seen then. What was only
	// made or deleted since the backup does not show here.
	Restored bool
}

// Mirror is a copy of prefixes in memory, of one revision at any time. It is safe
// for concurrent use.
type Mirror struct {
	cfg     MirrorConfig
	store   *Store
	log     *slog.Logger
	running atomic.Bool
	synced  chan struct{}
	// nudge asks for progress now, for a caller that waits; late says that one has waited for patience.
	nudge, late signal.Signal
	// asking is held by the caller that asks the store for its revision.
	asking sync.Mutex

	mu sync.Mutex
	// tree and what follows belong together, under mu.
	tree     *btree.BTreeG[item]
	snapshot *MirrorView // of tree; nil after a change
	revision int64
	advanced chan struct{} // closed and replaced when revision moves
	feeds    map[*Feed]struct{}
	// heard is when etcd was heard last: on the watch, or when it confirmed. sharing says that the watch has no
	// connection of its own.
	heard    time.Time
	sharing  bool
	watching bool
	// former is nil unless something is remembered.
	former *former
}

// defaultRememberBytes holds some thirty thousand changes of desired and observed records.
const defaultRememberBytes = 32 << 20

// NewMirror makes a mirror that is empty until Run has listed its prefixes.
func (s *Store) NewMirror(cfg MirrorConfig) *Mirror {
	cfg.Interval = positiveOr(cfg.Interval, 5*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = s.log
	}
	m := &Mirror{
		cfg:      cfg,
		store:    s,
		log:      cfg.Logger.With("prefixes", cfg.Prefixes),
		synced:   make(chan struct{}),
		nudge:    signal.New(),
		late:     signal.New(),
		tree:     newTree(),
		advanced: make(chan struct{}),
		feeds:    make(map[*Feed]struct{}),
	}
	if cfg.Remember != nil {
		m.former = &former{most: cmp.Or(cfg.RememberBytes, defaultRememberBytes)}
	}
	return m
}

func newTree() *btree.BTreeG[item] {
	return btree.NewG(32, func(a, b item) bool { return a.key < b.key })
}

// MirrorView is a mirror at one revision. It does not change any more.
type MirrorView struct {
	tree     *btree.BTreeG[item]
	revision int64
}

// Revision of the store that the view shows.
func (v *MirrorView) Revision() int64 { return v.revision }

// KV returns one key; false when it is absent, skipped or not mirrored.
func (v *MirrorView) KV(key string) (KV, bool) { return valueIn(v.tree, key) }

// QueuedJob returns one key that is kept packed, and its mod revision; false for any other.
func (v *MirrorView) QueuedJob(key string) (*record.QueuedJob, int64, bool) {
	i, ok := v.tree.Get(item{key: key})
	if !ok || i.queued == nil {
		return nil, 0, false
	}
	return &i.queued.job, i.queued.modified, true
}

// Prefix runs over the keys with a prefix, in key order.
func (v *MirrorView) Prefix(prefix string) iter.Seq[KV] {
	return func(yield func(KV) bool) {
		v.tree.AscendGreaterOrEqual(item{key: prefix}, func(i item) bool {
			return strings.HasPrefix(i.key, prefix) && yield(i.value())
		})
	}
}

// Guess is what the view shows of keys, for Update.From. Each must be mirrored: one
// that is not would be taken for absent.
func (v *MirrorView) Guess(keys ...string) *View {
	out := &View{Revision: v.revision, keys: make(map[string]*KV, len(keys))}
	for _, key := range keys {
		out.keys[key] = nil
		if kv, ok := v.KV(key); ok {
			out.keys[key] = &kv
		}
	}
	return out
}

// Snapshot returns the mirror as it is now. The watch goes on, and changes nothing in it.
// Before Synced it is empty, at revision 0.
func (m *Mirror) Snapshot() *MirrorView {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snap()
}

// snap clones the tree, which copies nothing until it is changed. It needs mu.
func (m *Mirror) snap() *MirrorView {
	if m.snapshot == nil {
		m.snapshot = &MirrorView{tree: m.tree.Clone(), revision: m.revision}
	}
	return m.snapshot
}

// Synced is closed once the prefixes were listed for the first time.
func (m *Mirror) Synced() <-chan struct{} { return m.synced }

// Revision is the revision up to which the mirror has seen everything.
func (m *Mirror) Revision() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision
}

// Healthy says whether the mirror is listed, watches, and has received something from etcd within
// three intervals.
func (m *Mirror) Healthy() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watching && time.Since(m.heard) < 3*m.cfg.Interval
}

// silence is how long ago etcd was heard last.
func (m *Mirror) silence() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.heard)
}

// confirm tells the mirrors which revision etcd had when it answered another call. For one that has seen it and whose
// watch is on the connection of that call, this is as good as progress: nothing is missing, and the connection lives.
// So a syncer in a quiet federation only renews its session.
func (s *Store) confirm(revision int64) {
	s.mirrorsMu.Lock()
	defer s.mirrorsMu.Unlock()
	for _, m := range s.mirrors {
		m.mu.Lock()
		if m.watching && m.sharing && m.revision == revision {
			m.heard = time.Now()
		}
		m.mu.Unlock()
	}
}

// Wait returns when the mirror has seen a revision that was committed, whether or not
// it concerned its prefixes. It ends with the cause of ctx; and with ErrUnavailable when
// the store does not have the revision any more: it was restored from an older state,
// and may not come to that number for days.
func (m *Mirror) Wait(ctx context.Context, revision int64) error {
	again := newBackOff(10*time.Millisecond, min(m.cfg.Interval, patience))
	began, asked := time.Now(), time.Now()
	seen, moved := int64(-1), began
	for {
		m.mu.Lock()
		now, advanced := m.revision, m.advanced
		m.mu.Unlock()
		if now >= revision {
			return nil
		}
		if now != seen {
			seen, moved = now, time.Now()
		}
		if time.Since(asked) > m.cfg.Interval {
			if err := m.has(ctx, revision); err != nil {
				return err
			}
			asked = time.Now()
		}
		m.nudge.Send()
		if time.Since(began) > patience && time.Since(moved) > patience/2 {
			m.late.Send() // it stands still: it is not we who are slow
		}
		timer := time.NewTimer(again.NextBackOff())
		select {
		case <-advanced:
		case <-timer.C: // a member that lags behind answers with an older revision: ask again
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

// has asks the store whether it has come to a revision, and answers ErrUnavailable when it has
// not. No listing or watch can tell: a mirror that lagged behind may not have seen what was lost
// either. Of the waiting callers one asks at a time; the others, and one that gets no answer, go
// on to wait.
func (m *Mirror) has(ctx context.Context, revision int64) error {
	if !m.asking.TryLock() {
		return nil
	}
	defer m.asking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Interval)
	defer cancel()
	_, now, err := m.store.get(ctx, m.cfg.Prefixes[0]) // which its user may read
	if err != nil || now >= revision {
		return nil
	}
	return fmt.Errorf("%w: it is at revision %d, and was at %d: it was restored from an older state", ErrUnavailable, now, revision)
}

// mirrored is the newest that a running mirror of this store shows of a key.
func (s *Store) mirrored(key string) (KV, bool) {
	s.mirrorsMu.Lock()
	defer s.mirrorsMu.Unlock()
	var newest KV
	for _, m := range s.mirrors {
		m.mu.Lock()
		kv, ok := valueIn(m.tree, key)
		m.mu.Unlock()
		if ok && kv.ModRevision > newest.ModRevision {
			newest = kv
		}
	}
	return newest, newest.ModRevision != 0
}

// keeps says whether a key belongs into the mirror.
func (m *Mirror) keeps(key string) bool {
	for _, prefix := range m.cfg.Prefixes {
		if key == prefix || strings.HasSuffix(prefix, "/") && strings.HasPrefix(key, prefix) {
			return m.cfg.Skip == nil || !m.cfg.Skip(key)
		}
	}
	return false
}

// scope is what the watch covers: the longest path that all prefixes share, or
// the one key.
func (m *Mirror) scope() (string, error) {
	if len(m.cfg.Prefixes) == 0 {
		return "", errors.New("a mirror needs a prefix")
	}
	scope := m.cfg.Prefixes[0]
	for _, prefix := range m.cfg.Prefixes {
		for prefix != scope && (!strings.HasSuffix(scope, "/") || !strings.HasPrefix(prefix, scope)) {
			scope = scope[:strings.LastIndexByte(strings.TrimSuffix(scope, "/"), '/')+1]
			if scope == "" {
				return "", errors.New("the mirrored prefixes have no path in common")
			}
		}
	}
	return scope, nil
}

// change is one key of a watch response.
type change struct {
	kv      KV
	deleted bool
}

// apply takes over all changes of one response, then moves to its revision. What
// the mirror has seen already is left out: after a reconnect etcd may repeat.
func (m *Mirror) apply(changes []change, revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		if c.kv.ModRevision <= m.revision {
			continue
		}
		if m.cfg.Tap != nil {
			m.cfg.Tap.Changed(c.kv, c.deleted)
		}
		if !m.keeps(c.kv.Key) {
			continue
		}
		m.snapshot = nil
		var old item
		var had bool
		if c.deleted {
			old, had = m.tree.Delete(item{key: c.kv.Key})
		} else {
			old, had = m.tree.ReplaceOrInsert(m.itemOf(c.kv))
		}
		m.remember(c.kv.ModRevision, c.kv.Key, old, had)
		m.dirty(c.kv.Key)
	}
	if revision > m.revision {
		m.moveTo(revision)
	}
	m.wakeFeeds()
}

// replace takes over a whole listing and reports only what differs from before:
// keys whose revision or bytes changed, and those that are gone.
func (m *Mirror) replace(kvs []KV, revision int64) {
	tree := newTree()
	for _, kv := range kvs {
		if m.keeps(kv.Key) {
			tree.ReplaceOrInsert(m.itemOf(kv))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cfg.Tap != nil {
		m.cfg.Tap.Listed(kvs)
	}
	seen, restored := m.revision, revision < m.revision
	tree.Ascend(func(now item) bool {
		old, ok := m.tree.Get(now)
		if !ok || !old.same(now) {
			m.dirty(now.key)
			m.remember(revision, now.key, old, ok)
			restored = restored || now.revision() <= seen
		}
		return true
	})
	m.tree.Ascend(func(old item) bool {
		if !tree.Has(old) {
			m.dirty(old.key)
			m.remember(revision, old.key, old, true)
		}
		return true
	})
	m.rememberListing(seen, revision, restored)
	select {
	case <-m.synced:
		if restored {
			m.log.Warn("the store was restored: it has another history than was seen", "seen", seen, "now", revision)
		}
		if m.cfg.OnRelist != nil {
			m.cfg.OnRelist(Relist{Before: m.snap(), Now: &MirrorView{tree: tree.Clone(), revision: revision}, Restored: restored})
		}
	default:
		close(m.synced)
	}
	m.tree = tree
	m.moveTo(revision)
	m.wakeFeeds()
}

// moveTo sets the revision and wakes the callers that wait for it. It needs mu.
func (m *Mirror) moveTo(revision int64) {
	m.revision, m.snapshot = revision, nil
	close(m.advanced)
	m.advanced = make(chan struct{})
}
