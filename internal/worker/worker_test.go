package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/internal/worker"
)

var (
	errStale = errors.New("stale")
	errOther = errors.New("other")
)

// pass lets time pass, in a test of virtual time, until all that is due by then is done.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// list is what was handled, or told, in order.
type list[T any] struct {
	mu  sync.Mutex
	all []T
}

func (l *list[T]) add(one T) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, one)
	return len(l.all)
}

func (l *list[T]) get() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// start runs w until the test ends, or stop is called.
func start(t *testing.T, w *worker.Worker[string]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func TestKeysAreHandledOncePerAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled list[string]
		w := worker.New(worker.Config[string]{Handle: func(_ context.Context, key string) (time.Duration, error) {
			handled.add(key)
			return 0, nil
		}})
		w.Add("a") // before Run
		w.Add("a")
		w.Add("b")
		w.AddAfter("c", time.Minute)
		if n := w.Len(); n != 4 {
			t.Errorf("%d keys wait before Run, want 4", n)
		}
		pass(40 * time.Second)
		start(t, w)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a", "b"}, handled.get()); diff != "" {
			t.Error(diff)
		}
		pass(20 * time.Second)
		w.Add("a")
		synctest.Wait()
		if diff := cmp.Diff([]string{"a", "b", "c", "a"}, handled.get()); diff != "" {
			t.Error(diff)
		}
		if n := w.Len(); n != 0 {
			t.Errorf("%d keys wait at the end", n)
		}
	})
}

func TestAKeyThatIsAddedWhileItIsHandledIsHandledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, handled atomic.Int32
		var w *worker.Worker[string]
		w = worker.New(worker.Config[string]{Goroutines: 4, Handle: func(context.Context, string) (time.Duration, error) {
			if running.Add(1) > 1 {
				t.Error("a key is handled twice at the same time")
			}
			if handled.Add(1) == 1 {
				w.Add("a")
			}
			<-time.After(time.Second)
			running.Add(-1)
			return 0, nil
		}})
		start(t, w)
		w.Add("a")
		pass(time.Minute)
		if n := handled.Load(); n != 2 {
			t.Errorf("handled %d times, want 2", n)
		}
	})
}

func TestGoroutinesWorkSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		w := worker.New(worker.Config[string]{Goroutines: 3, Handle: func(context.Context, string) (time.Duration, error) {
			now := running.Add(1)
			for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			<-time.After(time.Second)
			running.Add(-1)
			return 0, nil
		}})
		start(t, w)
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			w.Add(key)
		}
		pass(time.Minute)
		if n := most.Load(); n != 3 {
			t.Errorf("%d keys were handled at the same time, want 3", n)
		}
	})
}

func TestErrorsAreRetriedWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outcomes := []error{errOther, errStale, errOther, errOther, nil, errOther, nil}
		var at list[time.Duration]
		var told list[error]
		last := time.Now()
		w := worker.New(worker.Config[string]{
			MinBackoff: time.Second, MaxBackoff: 4 * time.Second,
			Stale: []error{errStale},
			OnError: func(key string, err error) {
				if key != "a" {
					t.Errorf("told of key %q", key)
				}
				told.add(err)
			},
			Handle: func(context.Context, string) (time.Duration, error) {
				n := at.add(time.Since(last)) - 1
				last = time.Now()
				if n == 4 {
					return 10 * time.Second, nil
				}
				return 0, outcomes[n]
			},
		})
		start(t, w)
		w.Add("a")
		pass(time.Hour)
		s := time.Second
		if diff := cmp.Diff([]time.Duration{0, s, 2 * s, 4 * s, 4 * s, 10 * s, s}, at.get()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]error{errOther, errOther, errOther, errOther}, told.get(), cmp.Comparer(errors.Is)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRunWaitsForWhatIsUnderWayAndDropsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled list[string]
		finished := false
		w := worker.New(worker.Config[string]{
			OnError: func(_ string, err error) { t.Errorf("told of %v, which the end has caused", err) },
			Handle: func(ctx context.Context, key string) (time.Duration, error) {
				handled.add(key)
				<-ctx.Done()
				<-time.After(time.Minute) // a write that is finished first
				finished = true
				return 0, ctx.Err()
			},
		})
		stop := start(t, w)
		w.Add("a")
		w.Add("b")
		w.AddAfter("c", time.Second)
		synctest.Wait()
		stop()
		if !finished {
			t.Error("Run has returned before its handler")
		}
		w.Add("d")
		w.AddAfter("e", time.Second)
		pass(time.Minute)
		if diff := cmp.Diff([]string{"a"}, handled.get()); diff != "" {
			t.Error(diff)
		}
		if n := w.Len(); n != 0 {
			t.Errorf("%d keys wait after the end", n)
		}
	})
}

func TestAnEndBeforeTheBeginningHandlesNothing(t *testing.T) {
	w := worker.New(worker.Config[string]{Handle: func(context.Context, string) (time.Duration, error) {
		t.Error("handled after the end")
		return 0, nil
	}})
	w.Add("a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Run(ctx)
}

// longest hands out the longest key first.
type longest struct{ keys []string }

func (l *longest) Touch(string)    {}
func (l *longest) Push(key string) { l.keys = append(l.keys, key) }
func (l *longest) Len() int        { return len(l.keys) }
func (l *longest) Pop() string {
	slices.SortFunc(l.keys, func(a, b string) int { return len(b) - len(a) })
	key := l.keys[0]
	l.keys = l.keys[1:]
	return key
}

func TestOrderDecidesWhichKeyIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled list[string]
		w := worker.New(worker.Config[string]{Order: &longest{}, Handle: func(_ context.Context, key string) (time.Duration, error) {
			handled.add(key)
			return 0, nil
		}})
		for _, key := range []string{"a", "ccc", "bb"} {
			w.Add(key)
		}
		start(t, w)
		synctest.Wait()
		if diff := cmp.Diff([]string{"ccc", "bb", "a"}, handled.get()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestKeysMayBeAddedFromEverywhereAtAnyTime(t *testing.T) {
	var handled sync.Map
	all := make(chan struct{})
	var left atomic.Int32
	left.Store(400)
	w := worker.New(worker.Config[string]{Goroutines: 4, Handle: func(_ context.Context, key string) (time.Duration, error) {
		if _, before := handled.LoadOrStore(key, true); !before && left.Add(-1) == 0 {
			close(all)
		}
		return 0, nil
	}})
	var adding sync.WaitGroup
	for g := range 4 {
		adding.Go(func() {
			for i := range 100 {
				w.AddAfter(string(rune('a'+g))+string(rune('A'+i)), time.Duration(i%3)*time.Millisecond)
			}
		})
	}
	stop := start(t, w)
	adding.Wait()
	<-all
	stop()
}

func TestKeysThatAreDueAreHandledTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled list[[]string]
		var w *worker.Worker[string]
		w = worker.New(worker.Config[string]{Most: 2, HandleAll: func(_ context.Context, keys []string) {
			if handled.add(keys) == 1 {
				w.AddAfter(keys[0], time.Second)
			}
		}})
		for _, key := range []string{"a", "b", "c", "a"} {
			w.Add(key)
		}
		start(t, w)
		pass(time.Minute)
		if diff := cmp.Diff([][]string{{"a", "b"}, {"c"}, {"a"}}, handled.get()); diff != "" {
			t.Error(diff)
		}
	})
}
