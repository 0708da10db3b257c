package ha_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/process"
)

const (
	// inTime is how soon a call is to be answered, and patience how long its client tries.
	inTime   = 5 * time.Second
	patience = time.Minute
	// tryTime is how long a client waits for one control plane.
	tryTime = 2 * time.Second
	// writeEvery is how many calls there are to one write. Of two writes one is a deletion.
	writeEvery = 10
)

// load is what clients ask, and what they were told.
type load struct {
	federation *process.Federation
	seed       uint64

	mu               sync.Mutex
	created, deleted []int
	took             []time.Duration
	unanswered       int
	refused          map[string]int
}

// run calls at a rate, whether the calls before were answered or not, and waits for all answers.
func (l *load) run(ctx context.Context, rate int) {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		calls.Go(func() {
			ctx := context.WithoutCancel(ctx)
			switch {
			case n%writeEvery != 0:
				l.call(ctx, n, "read", func(ctx context.Context, c *client.Client) error {
					_, err := c.Service(ctx, name(l.seed, 0), "")
					return err
				})
			case n/writeEvery%2 == 1:
				l.write(ctx, n)
			default:
				l.remove(ctx, n)
			}
		})
	}
}

// write creates a service of its own.
func (l *load) write(ctx context.Context, n int) {
	s := service(name(l.seed, n), clusters[n/writeEvery%len(clusters)])
	ok := l.call(ctx, n, "create", func(ctx context.Context, c *client.Client) error {
		_, err := c.CreateService(ctx, s, client.CreateOptions{Async: true, IdempotencyKey: name(l.seed, n)})
		return err
	})
	if ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.created = append(l.created, n)
	}
}

// service is a definition on one cluster.
func service(name, cluster string) *oscar.Service {
	s, violations := oscar.ParseService(fmt.Appendf(nil, `{"name":%q,"cluster_id":%q,"image":"ghcr.io/grycap/imagemagick","script":"#!/bin/sh\n"}`, name, cluster))
	if len(violations) > 0 {
		panic(violations[0].Message) // it is the same text each time
	}
	return s
}

// remove deletes the oldest service that no other call deletes, but for the first.
func (l *load) remove(ctx context.Context, n int) {
	l.mu.Lock()
	if len(l.created) < 2 {
		l.mu.Unlock()
		return
	}
	old := l.created[1]
	l.created = slices.Delete(l.created, 1, 2)
	l.mu.Unlock()
	ok := l.call(ctx, n, "delete", func(ctx context.Context, c *client.Client) error {
		_, err := c.DeleteService(ctx, name(l.seed, old), client.DeleteOptions{IdempotencyKey: "delete-" + name(l.seed, old)})
		if e, is := errors.AsType[*client.Error](err); is && e.Problem.Status == http.StatusNotFound {
			return nil // an earlier try has deleted it
		}
		return err
	})
	if ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.deleted = append(l.deleted, old)
	}
}

// call asks one control plane after another until one answers, and says whether it did what it was
// asked.
func (l *load) call(ctx context.Context, n int, what string, ask func(context.Context, *client.Client) error) bool {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for try := n; ; try++ {
		c := l.federation.API(process.ControlPlaneName(try % controlPlanes))
		err := once(ctx, c, ask)
		switch {
		case !answered(err):
		default:
			l.count(what, time.Since(began), err)
			return err == nil
		}
		if !pause(ctx, 50*time.Millisecond) {
			l.count(what, 0, err)
			return false
		}
	}
}

func once(ctx context.Context, c *client.Client, ask func(context.Context, *client.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	return ask(ctx, c)
}

// answered says whether a control plane has said yes or no.
func answered(err error) bool {
	if err == nil {
		return true
	}
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Problem.Status != 0 && e.Problem.Status < http.StatusInternalServerError && e.Problem.Status != http.StatusTooManyRequests
}

func (l *load) count(what string, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if took == 0 {
		l.unanswered++
	} else {
		l.took = append(l.took, took)
	}
	if err != nil {
		if l.refused == nil {
			l.refused = map[string]int{}
		}
		l.refused[fmt.Sprintf("%s: %.80s", what, err)]++
	}
}

// lost counts the accepted creations whose federation, or its outcome, is not there, and the
// accepted deletions whose federation stands.
func (l *load) lost(t *testing.T) (n int) {
	t.Helper()
	c := l.federation.API(process.ControlPlaneName(0))
	stands := func(i int) (known, stands bool) {
		view, err := c.Replicas(t.Context(), name(l.seed, i), "")
		if e, is := errors.AsType[*client.Error](err); is && e.Problem.Status == http.StatusNotFound {
			return false, false
		}
		if err != nil {
			t.Fatal(err)
		}
		return true, !record.Phase(view.Phase).Result()
	}
	for _, i := range l.created {
		if known, _ := stands(i); !known {
			t.Logf("the accepted creation of %s is not known", name(l.seed, i))
			n++
		}
	}
	for _, i := range l.deleted {
		if _, stands := stands(i); stands {
			t.Logf("%s stands after its accepted deletion", name(l.seed, i))
			n++
		}
	}
	return n
}

// figures say how soon calls were answered.
func (l *load) figures() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.took)
	all, late := len(l.took)+l.unanswered, l.unanswered
	for _, d := range l.took {
		if d > inTime {
			late++
		}
	}
	at := func(q float64) time.Duration {
		return l.took[int(q*float64(len(l.took)-1))].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("calls: %d; answered within %s: %.3f %% (%d later, of which %d not within %s); p50 %s, p99 %s, p99.9 %s, longest %s; refused: %v",
		all, inTime, 100*float64(all-late)/float64(all), late, l.unanswered, patience, at(.5), at(.99), at(.999), at(1), l.refused)
}
