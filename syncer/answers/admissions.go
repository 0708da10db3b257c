package answers

import (
	"context"
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/oscarfed/oscarfed/syncer/manager"
)

// admittedAge is how long OSCAR's yes to a user counts for further votes.
const admittedAge = 30 * time.Second

// admissions asks OSCAR once about a user, for the votes on many services. It keeps the hashes of
// tokens only.
type admissions struct {
	ask func(context.Context, manager.Bearer) error
	now func() time.Time
	// run bounds the calls, and under counts who waits for one.
	run   context.Context
	under sync.WaitGroup
	calls singleflight.Group

	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
}

func newAdmissions(run context.Context, now func() time.Time, ask func(context.Context, manager.Bearer) error) *admissions {
	return &admissions{run: run, ask: ask, now: now, until: map[[sha256.Size]byte]time.Time{}}
}

// Check is nil when OSCAR accepts the user. Callers at a time share one call. It ends with run, not with the caller that
// asked first: a person may end a plan while his creation waits for its vote.
func (a *admissions) Check(ctx context.Context, as manager.Bearer) error {
	key := sha256.Sum256([]byte(as))
	if a.known(key, a.now()) {
		return nil
	}
	answer := make(chan error, 1)
	a.under.Go(func() {
		_, err, _ := a.calls.Do(string(key[:]), func() (any, error) { return nil, a.admit(key, as) })
		answer <- err
	})
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wait returns when no call is under way; run must have ended.
func (a *admissions) Wait() { a.under.Wait() }

func (a *admissions) admit(key [sha256.Size]byte, as manager.Bearer) error {
	began := a.now()
	if err := a.ask(a.run, as); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.until, func(_ [sha256.Size]byte, until time.Time) bool { return began.After(until) })
	a.until[key] = began.Add(admittedAge)
	return nil
}

func (a *admissions) known(key [sha256.Size]byte, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now.Before(a.until[key])
}
