package world

import (
	"context"
	"testing"
)

// Task is a function that runs beside its caller until its context ends.
type Task struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Go starts a function. Its caller ends it by Stop.
func Go(ctx context.Context, fn func(context.Context) error) *Task {
	t := &Task{done: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancel(ctx)
	go func() {
		defer close(t.done)
		t.err = fn(t.ctx)
	}()
	return t
}

// Cancel ends the function's context, and does not wait for it.
func (t *Task) Cancel() { t.cancel() }

// Stop ends the function's context, waits for the function and returns its error.
func (t *Task) Stop() error {
	t.cancel()
	<-t.done
	return t.err
}

// Background runs fn beside the test until the test's end or until the function
// that it returns is called, and fails the test when fn fails by itself.
func Background(t testing.TB, fn func(context.Context) error) (stop func()) {
	return background(context.WithoutCancel(t.Context()), t, fn).stop
}

// testTask is a task whose own failure is the test's.
type testTask struct{ *Task }

func background(ctx context.Context, t testing.TB, fn func(context.Context) error) testTask {
	task := testTask{Go(ctx, func(ctx context.Context) error {
		if err := fn(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		return nil
	})}
	t.Cleanup(task.stop)
	return task
}

func (t testTask) stop() { _ = t.Stop() } // its error was told
