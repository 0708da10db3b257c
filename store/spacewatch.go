package store

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/internal/signal"
)

// SpaceConfig says how etcd's space is watched.
type SpaceConfig struct {
	// Interval between two looks at the members; default 5 s, a fifth of it while
	// they come near to their limits.
	Interval time.Duration
	// Retention is the history that is kept when space is short; 0 keeps all. When
	// etcd is full, history is given up before anything else.
	Retention time.Duration
	// StepTimeout bounds one compaction, one defragmentation, and how long a member
	// that is silent holds up the defragmentation of another; default 3 min.
	StepTimeout time.Duration
	// MaxPause is the longest pause between two attempts to make space that did
	// not help; default 5 min.
	MaxPause time.Duration
	// Root, when set, opens the store as a user who may make space, which the ordinary one may not
	// where authentication is enabled. It is closed after each attempt.
	Root func(ctx context.Context) (*Store, error)
	// OnStep is told of each step of a recovery (compact, defragment, disarm) and
	// its outcome (done, denied, failed).
	OnStep func(step, outcome string)
	// Logger defaults to that of the store.
	Logger *slog.Logger
}

// SpaceWatch looks at etcd's space and makes some when it is short: it compacts,
// defragments member after member, and disarms the alarm. It writes no revision,
// so that it works when nothing can be written. Several processes may run one on
// the same etcd: each looks again before each step, so that what another has done
// is not done twice. Two that still defragment at the same moment block two
// members for that time, and harm nothing else.
type SpaceWatch struct {
	cfg   SpaceConfig
	store *Store
	log   *slog.Logger

	mu    sync.Mutex
	space Space
	// silentSince is when an endpoint last answered, or first did not.
	silentSince map[string]time.Time
	past        revisions
	// full says that etcd was full and has not been in order since.
	full bool
	// rewritten is the store's revision at which a member's file was written anew.
	// Only the recovery reads and writes it.
	rewritten map[uint64]int64
	// compacted is the revision that a recovery compacted to last. Only the recovery uses it.
	compacted int64
	// reserved are writes that are not in the members' figures yet, and reservedBytes what they put
	// together.
	reserved      map[*reservation]bool
	reservedBytes int64
	// wanted says that a write was refused because it does not fit into what is free.
	wanted bool
	// wake tells the recovery that there is something to do.
	wake signal.Signal
}

// NewSpaceWatch makes a watch; it starts nothing.
func (s *Store) NewSpaceWatch(cfg SpaceConfig) *SpaceWatch {
	cfg.Interval = positiveOr(cfg.Interval, 5*time.Second)
	cfg.StepTimeout = positiveOr(cfg.StepTimeout, 3*time.Minute)
	cfg.MaxPause = positiveOr(cfg.MaxPause, 5*time.Minute)
	if cfg.Logger == nil {
		cfg.Logger = s.log
	}
	if cfg.OnStep == nil {
		cfg.OnStep = func(string, string) {}
	}
	return &SpaceWatch{
		cfg: cfg, store: s, log: cfg.Logger, space: Space{Level: SpaceUnknown},
		silentSince: map[string]time.Time{}, rewritten: map[uint64]int64{}, reserved: map[*reservation]bool{}, wake: signal.New(),
	}
}

// Space is how it stood at the last look.
func (w *SpaceWatch) Space() Space {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.space
}

// reservation is room for a write that is under way, or that the last look was too early for.
type reservation struct {
	bytes int64
	ended bool
}

// Reserve reserves space for all that a write in several transactions puts, so that of those that
// begin together no more begin than fit. The caller calls release when it is done; the bytes count
// until the members' figures have them. Without space nothing is reserved, free says how much there
// is, and history that is not promised is given up, so that it may fit later. Each process counts what
// it writes itself: what several begin at once is what the head room is for. Without a quota, or before
// the first look, all fits.
func (w *SpaceWatch) Reserve(bytes int64) (release func(), free int64, ok bool) {
	bytes += bytes / 10 // etcd's own, for keys and pages
	w.mu.Lock()
	defer w.mu.Unlock()
	free = -1
	for _, m := range w.space.Members {
		if m.limited() && (free < 0 || m.free() < free) {
			free = m.free()
		}
	}
	if free >= 0 {
		if free = max(free-w.reservedBytes, 0); bytes > free {
			w.wanted = true
			w.wake.Send()
			return nil, free, false
		}
	}
	r := &reservation{bytes: bytes}
	w.reserved[r] = true
	w.reservedBytes += bytes
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		r.ended = true
	}, free, true
}

// written are the reservations whose writes a look that begins now sees.
func (w *SpaceWatch) written() []*reservation {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*reservation
	for r := range w.reserved {
		if r.ended {
			out = append(out, r)
		}
	}
	return out
}

// Run watches until ctx ends.
func (w *SpaceWatch) Run(ctx context.Context) error {
	m, err := w.store.maintenance()
	if err != nil {
		return fmt.Errorf("watch etcd's space: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for {
			_, err := w.look(ctx, m)
			if err != nil && ctx.Err() == nil {
				w.log.Debug("etcd's space is not known", "error", err)
			}
			if err := pause(ctx, w.interval()); err != nil {
				return err
			}
		}
	})
	g.Go(func() error { return w.recoveries(ctx, m) })
	err = g.Wait()
	if cerr := m.close(); cerr != nil {
		w.log.Warn("etcd's clients did not close cleanly", "error", cerr)
	}
	return err
}

// near is the part of a limit from which on it is looked more often: a flood of
// creations must not pass the head room between two looks.
const near = 0.8

func (w *SpaceWatch) interval() time.Duration {
	d := w.cfg.Interval
	if w.Space().Worst.fill() >= near {
		d /= 5
	}
	return d*3/4 + rand.N(d/2+1) //nolint:gosec // spreads load, guards nothing
}

// look asks the members and keeps what they said. After an error, what was known
// stays, but for who is silent.
func (w *SpaceWatch) look(ctx context.Context, m *maintenance) (Space, error) {
	now := time.Now()
	written := w.written()
	next, err := m.look(ctx)
	w.mu.Lock()
	if err != nil {
		w.space.Silent = next.Silent
		w.mu.Unlock()
		return Space{}, err
	}
	for _, r := range written {
		delete(w.reserved, r)
		w.reservedBytes -= r.bytes
	}
	before := w.space
	next.Denied, next.Commands, next.Step = before.Denied && next.Tight(), before.Commands, before.Step
	w.space = next
	w.full = next.Level == SpaceFull || w.full && next.Level != SpaceOK
	silent := map[string]time.Time{}
	for _, endpoint := range next.Silent {
		silent[endpoint] = now
		if since, ok := w.silentSince[endpoint]; ok {
			silent[endpoint] = since
		}
	}
	w.silentSince = silent
	w.past.note(now, next.revision, w.cfg.Retention)
	w.mu.Unlock()
	w.tell(before.Level, next)
	if next.Tight() {
		w.wake.Send()
	}
	return next, nil
}

// takeWanted says whether a write was refused since the last call.
func (w *SpaceWatch) takeWanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	wanted := w.wanted
	w.wanted = false
	return wanted
}

// tell logs when the level changes.
func (w *SpaceWatch) tell(before SpaceLevel, now Space) {
	if now.Level == before || before == SpaceUnknown && now.Level == SpaceOK {
		return
	}
	figures := []any{"level", now.Level, "before", before, "member", now.Worst.Endpoint,
		"size_bytes", now.Worst.Size, "in_use_bytes", now.Worst.InUse, "quota_bytes", now.Worst.Quota}
	if now.Level == SpaceOK {
		w.log.Info("etcd has space again", figures...)
		return
	}
	w.log.Warn("etcd's space is running out", append(figures, "advice", now.Advice())...)
}

// revisions are moments and what the store's revision was then, the oldest first.
type revisions []moment

type moment struct {
	at       time.Time
	revision int64
}

// note adds a moment, and forgets those that are not needed to answer for the
// retention. A minute, or a twentieth of a shorter retention, lies between two.
func (r *revisions) note(now time.Time, revision int64, retention time.Duration) {
	if retention <= 0 {
		return
	}
	if n := len(*r); n > 0 && now.Sub((*r)[n-1].at) < min(time.Minute, retention/20) {
		return
	}
	*r = append(*r, moment{now, revision})
	for len(*r) > 1 && now.Sub((*r)[1].at) >= retention {
		*r = (*r)[1:]
	}
}

// before is the newest revision that was there a retention ago; 0 when that is
// not known.
func (r revisions) before(now time.Time, retention time.Duration) int64 {
	if len(r) == 0 || retention <= 0 || now.Sub(r[0].at) < retention {
		return 0
	}
	return r[0].revision
}
