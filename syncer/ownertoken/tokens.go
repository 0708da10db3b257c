package ownertoken

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
	"github.com/oscarfed/oscarfed/syncer/token"
)

// Tokens finds access tokens for the services of this cluster, and answers for the refresh
// tokens that it holds, for one session.
type Tokens struct {
	session *session.Session
	keeper  *token.Keeper
	// queue has the federations whose tokens are to be reconciled, and needs those that
	// lack one here.
	queue *worker.Worker[string]
	needs *needs
	// seen is when access tokens of others were first seen.
	seen clock.FirstSeen
	// news rings when any token has come, and onNews is told of which federation.
	news   *bell
	onNews func(view *store.MirrorView, federation string)
}

// holderTimeout is how long the holder's answer is waited for before the lack of a token is reported.
const holderTimeout = 15 * time.Second

// New starts nothing.
func New(now *session.Session, process *Process, onNews func(*store.MirrorView, string)) *Tokens {
	t := &Tokens{session: now, keeper: process.keeper, needs: newNeeds(now.Now), news: &bell{}, onNews: onNews}
	t.queue = worker.New(worker.Config[string]{
		Handle: t.reconcile, Goroutines: workers, MinBackoff: 100 * time.Millisecond, MaxBackoff: 30 * time.Second,
		Stale: []error{session.ErrStale},
		OnError: func(federation string, err error) {
			if !now.LoseIfOver(err) {
				now.Log.Warn("the tokens of a federation are reconciled again", "federation", federation, "error", err)
			}
		},
	})
	return t
}

// Run reconciles until ctx ends.
func (t *Tokens) Run(ctx context.Context) { t.queue.Run(ctx) }

// Changed has the tokens of a federation reconciled: one of their records has changed.
func (t *Tokens) Changed(federation string) { t.queue.Add(federation) }

// Arrived tells that there is news of a token of a federation.
func (t *Tokens) Arrived(view *store.MirrorView, federation string) {
	t.news.ring()
	t.onNews(view, federation)
}

// ForgetNeeds drops the needs that no decision has had since a time.
func (t *Tokens) ForgetNeeds(since time.Time) { t.needs.forget(since.Add(-needsKept)) }

// tokenPoll is how often it is looked again for a token that is on its way. A grant is
// noticed at once.
const tokenPoll = time.Second

// await waits for an access token of a service's owner that is on its way.
func (t *Tokens) await(ctx context.Context, d *record.Desired) (AccessToken, error) {
	for {
		came := t.news.next()
		token, err := t.Access(d, t.session.Now())
		none, ok := errors.AsType[*NoTokenError](err)
		if !ok || !none.Pending {
			return token, err
		}
		timer := time.NewTimer(tokenPoll)
		select {
		case <-came:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return AccessToken{}, none
		}
	}
}

// bell wakes every goroutine that waits for the same event.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

// next is closed at the next ring.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
