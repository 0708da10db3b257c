package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Config of a Worker. Either Handle or HandleAll is required, the rest has defaults.
type Config[K comparable] struct {
	// Handle does the work of one key. After an error the key is handled again after a
	// pause that doubles from MinBackoff to MaxBackoff. Without an error the pause starts
	// anew, and the key is handled again after again if that is positive.
	Handle func(ctx context.Context, key K) (again time.Duration, err error)
	// HandleAll does the work of all keys that are due, up to Most of them, where that is
	// cheaper than one after another, in one goroutine. It adds again what has failed.
	HandleAll func(ctx context.Context, keys []K)
	Most      int
	// Goroutines is how many keys are handled at the same time; default 1.
	Goroutines int
	// MinBackoff and MaxBackoff are the shortest and the longest pause after errors;
	// default 5 ms and 10 s.
	MinBackoff, MaxBackoff time.Duration
	// Stale are errors that say that the handler's view of the world was out of date. They
	// are part of ordinary work: the key is tried again, and OnError is not called.
	Stale []error
	// OnError is told of every other error, once per try, to log it. It is not called for
	// errors that the end of Run has caused. The key is tried again in any case.
	OnError func(key K, err error)
	// Order replaces first in, first out. Calls of it are serialised.
	Order workqueue.Queue[K]
}

// Worker handles keys. It is safe for concurrent use.
type Worker[K comparable] struct {
	cfg Config[K]

	mu sync.RWMutex
	// queue is nil before Run and after it: New starts no goroutine, and none is left.
	queue workqueue.TypedRateLimitingInterface[K]
	// early are the keys that were added before Run.
	early []earlyKey[K]
	ended bool
}

type earlyKey[K comparable] struct {
	key K
	due time.Time // zero: at once
}

// New makes a Worker. It starts nothing; keys may be added from now on.
func New[K comparable](cfg Config[K]) *Worker[K] {
	if cfg.Goroutines <= 0 || cfg.HandleAll != nil {
		cfg.Goroutines = 1
	}
	if cfg.MinBackoff <= 0 {
		cfg.MinBackoff = 5 * time.Millisecond
	}
	if cfg.MaxBackoff <= 0 {
		cfg.MaxBackoff = 10 * time.Second
	}
	if cfg.OnError == nil {
		cfg.OnError = func(K, error) {}
	}
	return &Worker[K]{cfg: cfg}
}

// Add has a key handled. After the end of Run it does nothing.
func (w *Worker[K]) Add(key K) { w.AddAfter(key, 0) }

// AddAfter has a key handled after a pause. An earlier Add is not put off by it.
func (w *Worker[K]) AddAfter(key K, pause time.Duration) {
	w.mu.RLock()
	if w.queue != nil {
		w.queue.AddAfter(key, pause)
	}
	waits := w.queue == nil && !w.ended
	w.mu.RUnlock()
	if waits {
		w.addEarly(key, pause)
	}
}

// addEarly keeps a key until Run.
func (w *Worker[K]) addEarly(key K, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.queue != nil: // Run has begun meanwhile
		w.queue.AddAfter(key, pause)
	case w.ended:
	case pause > 0:
		w.early = append(w.early, earlyKey[K]{key, time.Now().Add(pause)})
	default:
		w.early = append(w.early, earlyKey[K]{key: key})
	}
}

// Len is how many keys are due and not taken yet.
func (w *Worker[K]) Len() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.queue == nil {
		return len(w.early)
	}
	return w.queue.Len()
}

// Retries is how often the handling of a key has failed since it last succeeded.
func (w *Worker[K]) Retries(key K) int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.queue == nil {
		return 0
	}
	return w.queue.NumRequeues(key)
}

// Run handles keys until ctx ends, and returns when the handlers under way have returned.
// Keys that were not taken by then are dropped. It is called once.
func (w *Worker[K]) Run(ctx context.Context) {
	queue := w.open()
	defer w.close()
	defer context.AfterFunc(ctx, queue.ShutDown)()
	var all sync.WaitGroup
	for range w.cfg.Goroutines {
		all.Go(func() {
			for w.next(ctx, queue) {
			}
		})
	}
	all.Wait()
}

// open makes the queue, with the keys that were added early.
func (w *Worker[K]) open() workqueue.TypedRateLimitingInterface[K] {
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[K](w.cfg.MinBackoff, w.cfg.MaxBackoff),
		workqueue.TypedRateLimitingQueueConfig[K]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{
				Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[K]{Queue: w.cfg.Order}),
			}),
		})
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.early {
		if e.due.IsZero() {
			queue.Add(e.key)
		} else {
			queue.AddAfter(e.key, time.Until(e.due))
		}
	}
	w.early, w.queue = nil, queue
	return queue
}

func (w *Worker[K]) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.ShutDown()
	w.queue, w.ended = nil, true
}

// next handles one key. It is false when no further one is to be handled.
func (w *Worker[K]) next(ctx context.Context, queue workqueue.TypedRateLimitingInterface[K]) bool {
	key, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(key)
	if ctx.Err() != nil {
		return false
	}
	if w.cfg.HandleAll != nil {
		return w.all(ctx, queue, key)
	}
	again, err := w.cfg.Handle(ctx, key)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		if !w.stale(err) {
			w.cfg.OnError(key, err)
		}
		queue.AddRateLimited(key)
	default:
		queue.Forget(key)
		if again > 0 {
			queue.AddAfter(key, again)
		}
	}
	return true
}

// all handles the keys that are due, of which first was taken.
func (w *Worker[K]) all(ctx context.Context, queue workqueue.TypedRateLimitingInterface[K], first K) bool {
	keys := []K{first}
	for len(keys) < w.cfg.Most && queue.Len() > 0 {
		key, shutdown := queue.Get()
		if shutdown {
			return false
		}
		defer queue.Done(key)
		keys = append(keys, key)
	}
	w.cfg.HandleAll(ctx, keys)
	return ctx.Err() == nil
}

func (w *Worker[K]) stale(err error) bool {
	for _, stale := range w.cfg.Stale {
		if errors.Is(err, stale) {
			return true
		}
	}
	return false
}
