package token

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

// Times of a Keeper.
const (
	// storePause is the first pause between tries to store a token that an issuer gave.
	storePause = 100 * time.Millisecond
	// vaultTimeout bounds one call of the vault.
	vaultTimeout = 15 * time.Second
	// firstPause and longestPause bound the pauses between exchanges that fail.
	firstPause   = time.Second
	longestPause = 5 * time.Minute
	// configPause is the first pause after an error that only an administrator can remove.
	configPause = time.Minute
	// markedFor is how long the mark of another holder is respected: longer than an exchange and
	// its storing take unless that holder is dead.
	markedFor = 90 * time.Second
	// minLead and maxLead bound how long before its end an access token is not given out any more: a
	// quarter of its life. With less than Slack, who has it would ask again at once, and get the same one.
	minLead = Slack + time.Second
	maxLead = 2 * time.Minute
)

// Slack is how long an access token must still be good for whoever uses it: clocks differ, and the request
// has to get there.
const Slack = 10 * time.Second

// Key names a refresh token by its owner and federation.
type Key struct{ Owner, Federation string }

// Given is a refresh token as its owner gave it.
type Given struct {
	Serial           int64
	Refresh          string
	Issuer, ClientID string
	GivenAt          time.Time
}

// Exchanger speaks to the issuers; *Issuers is one.
type Exchanger interface {
	Exchange(ctx context.Context, k *Stored) (Access, error)
	Revoke(ctx context.Context, k *Stored) (bool, error)
	Silent(k *Stored) error
}

// Config of a Keeper.
type Config struct {
	Vault   Vault
	Issuers Exchanger
	// Instance names this process in the marks that it leaves.
	Instance string
	// Report is called before a token is read, for the record; the token is not read
	// when it fails. What it returns is called with the outcome.
	Report func(ctx context.Context, r Reading) (done func(outcome string), err error)
	Now    func() time.Time
	Logger *slog.Logger
}

// Reading is a use of a refresh token that is about to be made.
type Reading struct {
	Key
	Serial int64
	// Revoke says that it is read to be revoked, not to be exchanged.
	Revoke bool
}

// LostError says that there is no token that the issuer accepts: only another one
// helps.
type LostError struct {
	Serial  int64
	Message string
}

// Error implements error.
func (e *LostError) Error() string { return e.Message }

// Keeper stores refresh tokens and gives access tokens for them. It is safe for concurrent use,
// and runs one operation at a time for each federation.
type Keeper struct {
	cfg Config
	// Close closes closing at once, and closed when its context ends.
	closing chan struct{}
	closed  chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	entries map[Key]*entry
}

// entry is the state of one federation's token in this process.
type entry struct {
	// busy is closed when the running operation has ended; nil when none runs.
	busy chan struct{}
	// access is given out until fresh.
	access Access
	fresh  time.Time
	serial int64
	// lost is set for the serial that it names.
	lost *LostError
	// err is answered until again, to who asks for the token of serial failed or an earlier one.
	err      error
	failed   int64
	again    time.Time
	failures int
	// mark is another holder's, and seen when it was first seen.
	mark string
	seen time.Time
}

// NewKeeper makes one. It starts nothing.
func NewKeeper(cfg Config) *Keeper {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keeper{cfg: cfg, closing: make(chan struct{}), closed: make(chan struct{}), entries: map[Key]*entry{}}
}

// Close waits, until ctx ends, for the operations that run: a token that an issuer gave a moment
// ago is still stored. No new one begins. It is called once.
func (k *Keeper) Close(ctx context.Context) {
	close(k.closing)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.running.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		close(k.closed)
		<-ended
	}
}

// errClosed says that no operation begins any more.
var errClosed = errors.New("the syncer stops")

// of gives what is known of a federation. It needs mu.
func (k *Keeper) entry(of Key) *entry {
	h := k.entries[of]
	if h == nil {
		h = &entry{}
		k.entries[of] = h
	}
	return h
}

// begin starts fn for a federation unless an operation runs, and returns a channel that is closed
// at the end of the one that runs. It needs mu. fn goes on when its callers give up.
func (k *Keeper) begin(ctx context.Context, h *entry, fn func(context.Context)) (<-chan struct{}, error) {
	select {
	case <-k.closing:
		return nil, errClosed
	default:
	}
	if h.busy != nil {
		return h.busy, nil
	}
	busy := make(chan struct{})
	h.busy = busy
	ctx = context.WithoutCancel(ctx)
	k.running.Go(func() {
		fn(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		h.busy = nil
		close(busy)
		if h.serial == 0 && h.lost == nil && h.err == nil && h.mark == "" {
			maps.DeleteFunc(k.entries, func(_ Key, o *entry) bool { return o == h })
		}
	})
	return busy, nil
}

// exclusively runs fn when no other operation runs for a federation. A caller whose ctx ends before
// fn gets no result of it.
func exclusively[T any](ctx context.Context, k *Keeper, of Key, fn func(ctx context.Context) (T, error)) (T, error) {
	var nothing T
	for {
		ran := false
		var result T
		var failure error
		k.mu.Lock()
		h := k.entry(of)
		free := h.busy == nil
		busy, err := k.begin(ctx, h, func(ctx context.Context) {
			ran = true
			result, failure = fn(ctx)
		})
		k.mu.Unlock()
		if err != nil {
			return nothing, err
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nothing, context.Cause(ctx)
		}
		if free && ran {
			return result, failure
		}
	}
}

// Access gives an access token of a federation's owner for the refresh token of a
// serial, or of a later one. Concurrent callers share one exchange. Its errors: *LostError,
// or one that may pass; a caller that asks again at once gets the same error without a try.
func (k *Keeper) Access(ctx context.Context, of Key, serial int64) (Access, error) {
	for {
		k.mu.Lock()
		h, now := k.entry(of), k.cfg.Now()
		switch {
		case h.serial >= serial && h.access.Token != "" && now.Before(h.fresh):
			access := h.access
			k.mu.Unlock()
			return access, nil
		case h.lost != nil && h.lost.Serial >= serial:
			err := h.lost
			k.mu.Unlock()
			return Access{}, err
		case h.err != nil && h.failed >= serial && now.Before(h.again):
			err := h.err
			k.mu.Unlock()
			return Access{}, err
		}
		busy, err := k.begin(ctx, h, func(ctx context.Context) { k.renew(ctx, of, serial) })
		k.mu.Unlock()
		if err != nil {
			return Access{}, err
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return Access{}, context.Cause(ctx)
		}
	}
}

// Lost says that the token of a serial was found lost by an earlier process.
func (k *Keeper) Lost(of Key, serial int64, message string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.entry(of); h.lost == nil || h.lost.Serial < serial {
		h.lost = &LostError{serial, message}
	}
}

// Hold stores a token as its owner gave it. It does nothing when one of that serial, or a later one,
// is there. One that cannot be read is replaced: that is what its owner gave another one for.
func (k *Keeper) Hold(ctx context.Context, of Key, g Given) error {
	_, err := exclusively(ctx, k, of, func(ctx context.Context) (struct{}, error) {
		for {
			before, err := k.get(ctx, of)
			switch {
			case errors.Is(err, ErrNone), errors.Is(err, ErrDamaged), errors.Is(err, ErrNewer):
				before = &Stored{}
			case err != nil:
				return struct{}{}, err
			case before.Serial >= g.Serial:
				return struct{}{}, nil
			}
			err = k.put(ctx, of, &Stored{
				Version: before.Version + 1, Serial: g.Serial, Refresh: g.Refresh, Issuer: g.Issuer, ClientID: g.ClientID, GivenAt: g.GivenAt,
			})
			if errors.Is(err, ErrChanged) {
				continue
			}
			if err != nil {
				return struct{}{}, err
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			h := k.entry(of)
			*h = entry{busy: h.busy}
			return struct{}{}, nil
		}
	})
	return err
}

// Keeps says whether a token of a serial, or of a later one, is there. One that is damaged is not.
func (k *Keeper) Keeps(ctx context.Context, of Key, serial int64) (bool, error) {
	return exclusively(ctx, k, of, func(ctx context.Context) (bool, error) {
		kept, err := k.get(ctx, of)
		if errors.Is(err, ErrNone) || errors.Is(err, ErrNoVault) || errors.Is(err, ErrDamaged) {
			return false, nil
		}
		return err == nil && kept.Serial >= serial, err
	})
}

func (k *Keeper) get(ctx context.Context, of Key) (*Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, vaultTimeout)
	defer cancel()
	return k.cfg.Vault.Get(ctx, of.Owner, of.Federation)
}

func (k *Keeper) put(ctx context.Context, of Key, kept *Stored) error {
	ctx, cancel := context.WithTimeout(ctx, vaultTimeout)
	defer cancel()
	return k.cfg.Vault.Put(ctx, of.Owner, of.Federation, kept)
}

func (k *Keeper) delete(ctx context.Context, of Key, version int64) error {
	ctx, cancel := context.WithTimeout(ctx, vaultTimeout)
	defer cancel()
	return k.cfg.Vault.Delete(ctx, of.Owner, of.Federation, version)
}

// renew makes one exchange and keeps its outcome for the callers of Access.
func (k *Keeper) renew(ctx context.Context, of Key, serial int64) {
	access, used, err := k.exchange(ctx, of)
	k.mu.Lock()
	defer k.mu.Unlock()
	h, now := k.entry(of), k.cfg.Now()
	if err == nil {
		life := access.Expires.Sub(now)
		if life > minLead {
			lead := min(max(life/4, minLead), maxLead)
			*h = entry{busy: h.busy, access: access, serial: max(used, serial), fresh: access.Expires.Add(-lead)}
			return
		}
		err = &UnusableError{fmt.Sprintf("the issuer gave an access token that is good for %s: it has to be more than %s", life.Round(time.Second), minLead)}
	}
	if lost, ok := errors.AsType[*LostError](err); ok {
		lost.Serial = max(lost.Serial, serial)
		*h = entry{busy: h.busy, lost: lost}
		return
	}
	pause := firstPause
	_, isConfig := errors.AsType[*ConfigError](err)
	if _, isUnusable := errors.AsType[*UnusableError](err); isConfig || isUnusable {
		pause = configPause
	}
	h.fail(max(used, serial), now, err, pause)
}

// fail notes an error about the token of a serial, and how long it is answered: longer after others about it. It
// needs mu.
func (h *entry) fail(serial int64, now time.Time, err error, first time.Duration) {
	if serial > h.failed {
		h.failures = 0
	}
	pause := min(first<<min(h.failures, 16), longestPause)
	h.failures++
	h.err, h.failed = err, max(h.failed, serial)
	h.again = now.Add(pause/2 + rand.N(pause)) //nolint:gosec // spreads load, guards nothing
}
