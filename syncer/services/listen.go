package services

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/oscarfed/oscarfed/internal/signal"
	"github.com/oscarfed/oscarfed/syncer/kube"
)

// News of definitions lead to a look each, which is one list of OSCAR for all that
// came together. A definition that a user changes without end costs a list every
// newsPause; the first newsBurst looks are at once.
const (
	newsPause = 2 * time.Second
	newsBurst = 3
)

// listen looks at services whose definitions were changed in Kubernetes, by whomever,
// until ctx ends. It only makes drift be seen soon: what it misses is found by the next
// resync.
func (s *Services) listen(ctx context.Context) {
	fresh := &news{names: map[string]bool{}, some: signal.New()}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		err := s.deps.Kube.Watch(ctx, fresh.add)
		if err != nil && !errors.Is(err, kube.ErrAbsent) && ctx.Err() == nil {
			s.session.Log.Error("changes of definitions are not watched; they are found by resyncs", "error", err)
		}
	}()
	defer func() { <-watched }()
	limit := rate.NewLimiter(rate.Every(newsPause), newsBurst)
	for {
		select {
		case <-ctx.Done():
			return
		case <-fresh.some:
		}
		// Other people's services are not ours to look at, and do not make ours wait.
		if !fresh.keep(s.isDesired) {
			continue
		}
		if limit.Wait(ctx) != nil {
			return
		}
		fresh.keep(s.isDesired)
		now := s.session.Now()
		for name := range fresh.take() {
			s.request(name, now)
			s.decisions.Add(name)
		}
	}
}

func (s *Services) isDesired(name string) bool { return s.session.Desired(name) != nil }

// news are the names that have changed and were not looked at yet.
type news struct {
	mu    sync.Mutex
	names map[string]bool
	// some is sent with each name.
	some signal.Signal
}

func (n *news) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = true
	n.some.Send()
}

// keep drops the names that are not wanted, and says whether any are left.
func (n *news) keep(wanted func(name string) bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.names, func(name string, _ bool) bool { return !wanted(name) })
	return len(n.names) > 0
}

// take hands over all names.
func (n *news) take() map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.names
	n.names = map[string]bool{}
	return taken
}
