package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// interrupts end a context, unless another program has the terminal, which gives each key to it and to this one.
type interrupts struct{ lent atomic.Int32 }

// interruptsKey is that of the interrupts in their context.
type interruptsKey struct{}

// Interruptible is a context that SIGINT and SIGTERM end, until stop is called.
func Interruptible(parent context.Context) (ctx context.Context, stop func()) {
	var i interrupts
	ctx, end := context.WithCancelCause(context.WithValue(parent, interruptsKey{}, &i))
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGTERM || i.lent.Load() == 0 {
					end(errors.New(s.String() + " signal received"))
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		end(nil)
	}
}

// lendTerminal leaves SIGINT to another program until back is called.
func lendTerminal(ctx context.Context) (back func()) {
	i, ok := ctx.Value(interruptsKey{}).(*interrupts)
	if !ok {
		return func() {}
	}
	i.lent.Add(1)
	return func() { i.lent.Add(-1) }
}

// input is standard input that is read until a context ends: a person who interrupts a command need not end a line
// first.
type input struct {
	io.Reader

	done  <-chan struct{}
	cause func() error
}

// Input reads r until ctx ends. What is read in vain then is lost.
func Input(ctx context.Context, r io.Reader) io.Reader {
	return &input{Reader: r, done: ctx.Done(), cause: func() error { return context.Cause(ctx) }}
}

func (i *input) Read(p []byte) (int, error) {
	type result struct {
		data []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		data := make([]byte, len(p))
		n, err := i.Reader.Read(data)
		read <- result{data[:n], err}
	}()
	select {
	case r := <-read:
		return copy(p, r.data), r.err
	case <-i.done:
		return 0, i.cause()
	}
}

// RawInput is what is below an Input: other programs get it.
func RawInput(r io.Reader) io.Reader {
	if i, ok := r.(*input); ok {
		return i.Reader
	}
	return r
}
