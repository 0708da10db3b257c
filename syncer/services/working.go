package services

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// working calls do with a name that no other goroutine works on, and puts those that need a
// write into the write queue. After an error a name is decided upon again, with growing
// pauses.
func (s *Services) working(do func(context.Context, string) (write bool, err error)) func(context.Context, string) (time.Duration, error) {
	return func(ctx context.Context, name string) (time.Duration, error) {
		if !s.claims.take(name) {
			return 0, nil // it is decided upon when the other goroutine is done
		}
		write, err := do(ctx, name)
		wanted := s.claims.release(name)
		switch {
		case write:
			s.writes.Add(name) // which looks at everything again
			s.process.metrics.queue.Set(float64(s.writes.Len()))
		case wanted:
			s.decisions.Add(name)
		}
		// A step that is only wanted yet has not ended what was tried in vain before.
		if ctx.Err() == nil && (!write || err != nil) {
			s.after(name, err)
		}
		return 0, nil
	}
}

// handing hands over the services that OSCAR is asked about more than of others, before it can be decided: where it
// does not answer that, they wait for it among themselves. rest does the others.
func (s *Services) handing(rest func(context.Context, string) (time.Duration, error)) func(context.Context, string) (time.Duration, error) {
	return func(ctx context.Context, name string) (time.Duration, error) {
		switch d := s.session.Desired(name); {
		case d != nil && d.Intent == record.IntentPrepare:
			s.votes.Add(name)
		case d != nil && d.Intent == record.IntentApply && d.RunState != "":
			s.runStates.Add(name)
		default:
			return rest(ctx, name)
		}
		return 0, nil
	}
}

// maxVotePause is the longest pause between tries to vote: a vote has a deadline.
const maxVotePause = time.Second

// after puts a name back when its work ended with an error.
func (s *Services) after(name string, err error) {
	switch {
	case err == nil:
		s.retries.Forget(name)
		s.stale.Forget(name)
	case s.session.LoseIfOver(err):
	case errors.Is(err, session.ErrStale):
		s.decisions.AddAfter(name, s.stale.When(name))
	default:
		pause := s.retries.When(name)
		if d := s.session.Desired(name); d != nil && d.Intent == record.IntentPrepare && d.Deadline != nil {
			pause = min(pause, maxVotePause)
		}
		s.session.Log.Warn("service is looked at again", "service", name, "error", err, "pause", pause)
		s.decisions.AddAfter(name, pause)
	}
}

// claims are the names that a goroutine works on.
type claims struct {
	mu    sync.Mutex
	taken map[string]bool // value: another goroutine wanted it meanwhile
}

func newClaims() *claims { return &claims{taken: map[string]bool{}} }

func (c *claims) take(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.taken[name]; taken {
		c.taken[name] = true
		return false
	}
	c.taken[name] = false
	return true
}

// release says whether the name was wanted meanwhile.
func (c *claims) release(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := c.taken[name]
	delete(c.taken, name)
	return wanted
}
