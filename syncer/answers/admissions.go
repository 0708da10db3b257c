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
	ask   func(context.Context, manager.Bearer) error
	now   func() time.Time
	calls singleflight.Group

	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
}

func newAdmissions(now func() time.Time, ask func(context.Context, manager.Bearer) error) *admissions {
	return &admissions{ask: ask, now: now, until: map[[sha256.Size]byte]time.Time{}}
}

// Check is nil when OSCAR accepts the user. All its callers live as long as ctx.
func (a *admissions) Check(ctx context.Context, as manager.Bearer) error {
	key := sha256.Sum256([]byte(as))
	if a.known(key, a.now()) {
		return nil
	}
	_, err, _ := a.calls.Do(string(key[:]), func() (any, error) {
		began := a.now()
		if err := a.ask(ctx, as); err != nil {
			return nil, err
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		maps.DeleteFunc(a.until, func(_ [sha256.Size]byte, until time.Time) bool { return began.After(until) })
		a.until[key] = began.Add(admittedAge)
		return nil, nil
	})
	return err
}

func (a *admissions) known(key [sha256.Size]byte, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now.Before(a.until[key])
}
