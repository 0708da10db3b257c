package lograte

import (
	"context"
	"hash/maphash"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// Config of a Handler. The zero value has the defaults.
type Config struct {
	// Burst is how many equal lines are let through in an Interval; default 20.
	Burst int
	// Interval is how long equal lines are counted together; default a minute.
	Interval time.Duration
	// Kinds is how many kinds of lines are counted apart; default 10,000. Beyond it, new
	// ones of one level count as equal, with a hundred times the Burst.
	Kinds int
}

// leftOut is the message of the line that says how many were left out, which it names in
// the attribute line.
const leftOut = "lines like this were left out"

// identity says whether an attribute tells what a line is about. Others, such as errors
// and durations, differ among lines that say the same.
func identity(name string) bool {
	switch name {
	case "cluster", "service", "reason", "federation", "group_id", "job", "step", "phase", "state", "route", "component", "request_id":
		return true
	}
	return false
}

// Handler lets the first few of equal lines through. It is safe for concurrent use.
type Handler struct {
	next slog.Handler
	all  *counts
	// about is the hash of the attributes of identity that every line has, and grouped
	// that further ones are inside of a group, where they tell nothing to us.
	about   uint64
	grouped bool
}

// counts are shared by a Handler and those that were made of it.
type counts struct {
	cfg  Config
	seed maphash.Seed

	mu    sync.Mutex
	kinds map[uint64]*kind
}

// kind is what was seen of equal lines in the present interval.
type kind struct {
	until time.Time
	burst int
	seen  int
	out   int
}

// New bounds what reaches next.
func New(next slog.Handler, cfg Config) *Handler {
	if cfg.Burst <= 0 {
		cfg.Burst = 20
	}
	if cfg.Interval <= 0 {
		cfg.Interval = time.Minute
	}
	if cfg.Kinds <= 0 {
		cfg.Kinds = 10_000
	}
	return &Handler{next: next, all: &counts{cfg: cfg, seed: maphash.MakeSeed(), kinds: map[uint64]*kind{}}}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	out.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		out.about ^= h.hash(a)
	}
	return &out
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	out := *h
	out.next, out.grouped = h.next.WithGroup(name), h.grouped || name != ""
	return &out
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if !h.admits(r) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// hash is 0 for an attribute that does not tell what a line is about.
func (h *Handler) hash(a slog.Attr) uint64 {
	if h.grouped || !identity(a.Key) {
		return 0
	}
	return maphash.String(h.all.seed, a.Key+"\x00"+a.Value.Resolve().String())
}

// kindOf is equal for equal lines. once says that nothing went wrong in a line about one
// request: there are as many as there are requests, which are bounded elsewhere.
func (h *Handler) kindOf(r slog.Record) (kind uint64, once bool) {
	kind = h.about ^ maphash.String(h.all.seed, r.Level.String()+"\x00"+r.Message)
	r.Attrs(func(a slog.Attr) bool {
		kind ^= h.hash(a)
		once = once || a.Key == "request_id" && r.Level < slog.LevelWarn
		return true
	})
	return kind, once
}

// admits counts a line and says whether it is let through. The first that is not starts a timer,
// which logs their number at the end of the interval.
func (h *Handler) admits(r slog.Record) bool {
	id, once := h.kindOf(r)
	if once {
		return true
	}
	c, now := h.all, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kind(id, r.Level, now)
	k.seen++
	if k.seen <= k.burst {
		return true
	}
	k.out++
	if k.out == 1 {
		time.AfterFunc(k.until.Sub(now), func() { h.tell(k, r.Level, r.Message) })
	}
	return false
}

// kind needs mu. A kind whose interval is over begins anew; there are never many more than
// Config.Kinds.
func (c *counts) kind(id uint64, level slog.Level, now time.Time) *kind {
	if k := c.kinds[id]; k != nil && now.Before(k.until) {
		return k
	}
	k := &kind{until: now.Add(c.cfg.Interval), burst: c.cfg.Burst}
	if c.kinds[id] == nil && len(c.kinds) >= c.cfg.Kinds {
		maps.DeleteFunc(c.kinds, func(_ uint64, k *kind) bool { return !now.Before(k.until) })
		if len(c.kinds) >= c.cfg.Kinds {
			id = maphash.String(c.seed, "others\x00"+level.String())
			if k := c.kinds[id]; k != nil && now.Before(k.until) {
				return k
			}
			k.burst *= 100
		}
	}
	c.kinds[id] = k
	return k
}

func (h *Handler) tell(k *kind, level slog.Level, message string) {
	h.all.mu.Lock()
	out := k.out
	h.all.mu.Unlock()
	r := slog.NewRecord(time.Now(), level, leftOut, 0)
	r.AddAttrs(slog.String("line", message), slog.Int("count", out), slog.Duration("interval", h.all.cfg.Interval))
	_ = h.next.Handle(context.Background(), r) // a logger has nowhere to report its own error
}
