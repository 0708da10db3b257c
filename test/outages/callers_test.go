//go:build linux

package outages_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/test/await"
)

const (
	// once is how long a caller waits that tries once.
	once = 10 * time.Second
	// late is what takes longer than callers notice.
	late = time.Second
)

// The columns of the table.
const (
	reads   = "reads"
	writes  = "writes"
	patient = "oscarfed"
)

// call is one call of a caller.
type call struct {
	at   time.Time
	took time.Duration
	// failed is what came in place of an answer; empty for an answer.
	failed string
}

func (c call) end() time.Time { return c.at.Add(c.took) }

// callers call at fixed rates, whether the calls before were answered or not: who tries each call once,
// as curl does, and who calls as the command `oscarfed` does.
type callers struct {
	t    *testing.T
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	calls map[string][]call
	// jobs are those that were accepted, by their event, services those that were.
	jobs     map[string]string
	services []string
	// under way are the calls that are not answered yet.
	underWay int
}

// call starts all callers.
func (s *scene) call() *callers {
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	c := &callers{t: s.t, stop: stop, calls: map[string][]call{}, jobs: map[string]string{}}
	curl, command := s.client(1, once), s.client(client.DefaultTries, client.DefaultTimeout)
	read := func(api *client.Client) func(context.Context, string) error {
		return func(ctx context.Context, _ string) error {
			_, err := api.Replicas(ctx, steady, "")
			return err
		}
	}
	job := func(api *client.Client) func(context.Context, string) error {
		return func(ctx context.Context, name string) error {
			event := fmt.Sprintf(`{"n":%q}`, name)
			j, err := api.SubmitJob(ctx, steady, []byte(event), client.JobOptions{IdempotencyKey: name})
			if err == nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.jobs[event] = j.ID
			}
			return err
		}
	}
	create := func(ctx context.Context, name string) error {
		_, err := curl.CreateService(ctx, service(c.t, name, "a"), client.CreateOptions{Async: true, IdempotencyKey: name})
		if err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.services = append(c.services, name)
		}
		return err
	}
	c.again(ctx, reads, "read", 100*time.Millisecond, read(curl))
	c.again(ctx, writes, "job", 500*time.Millisecond, job(curl))
	c.again(ctx, writes, "create", time.Second, create)
	c.again(ctx, patient, "patient-read", time.Second, read(command))
	c.again(ctx, patient, "patient-job", time.Second, job(command))
	return c
}

// again calls at a rate until ctx ends.
func (c *callers) again(ctx context.Context, column, name string, every time.Duration, ask func(ctx context.Context, name string) error) {
	c.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			c.done.Go(func() {
				c.mu.Lock()
				c.underWay++
				c.mu.Unlock()
				began := time.Now()
				err := ask(context.WithoutCancel(ctx), fmt.Sprintf("%s-%d", name, n))
				c.mu.Lock()
				defer c.mu.Unlock()
				c.underWay--
				c.calls[column] = append(c.calls[column], call{at: began, took: time.Since(began), failed: failure(err)})
			})
		}
	})
}

// failure is what a caller got in place of an answer.
func failure(err error) string {
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case err == nil:
		return ""
	case ok && e.Problem.Status != 0:
		return fmt.Sprintf("%d", e.Problem.Status)
	default:
		return "no answer"
	}
}

// awaitCalm waits until no call has failed, or been late where that is told, for some time.
func (c *callers) awaitCalm(lateCounts bool) {
	c.t.Helper()
	const calm = 5 * time.Second
	since := time.Now()
	await.Until(c.t, "callers see nothing of the fault any more", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, calls := range c.calls {
			for _, call := range calls {
				if (call.failed != "" || lateCounts && call.took > late) && call.end().After(since) {
					since = call.end()
				}
			}
		}
		return time.Since(since) > calm && (!lateCounts || c.underWay < 5)
	})
}

// end stops all callers.
func (c *callers) end() {
	c.stop()
	c.done.Wait()
}

// seen is what the callers of a column saw from a moment on.
func (c *callers) seen(column string, since time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var failed, slow, all []call
	reasons := map[string]bool{}
	for _, call := range c.calls[column] {
		switch {
		case call.end().Before(since):
			continue
		case call.failed != "":
			failed = append(failed, call)
			reasons[call.failed] = true
		case call.took > late:
			slow = append(slow, call)
		}
		all = append(all, call)
	}
	slices.SortFunc(all, func(a, b call) int { return a.at.Compare(b.at) })
	for _, call := range all {
		if call.failed != "" || call.took > late {
			c.t.Logf("%s: after %.1f s a call took %.1f s %s", column, call.at.Sub(since).Seconds(), call.took.Seconds(), call.failed)
		}
	}
	var out []string
	if len(failed) == 1 {
		out = append(out, "one fails ("+failed[0].failed+")")
	}
	if len(failed) > 1 {
		var names []string
		for reason := range reasons {
			names = append(names, reason)
		}
		slices.Sort(names)
		from, to := span(failed)
		during := 0
		for _, call := range all {
			if !call.at.Before(from) && !call.at.After(to) {
				during++
			}
		}
		out = append(out, fmt.Sprintf("%d %% fail for %s (%s)", max(1, 100*len(failed)/during), seconds(to.Sub(from)), strings.Join(names, ", ")))
	}
	if len(slow) > 0 {
		from, to := span(slow)
		longest := time.Duration(0)
		for _, call := range slow {
			longest = max(longest, call.took)
		}
		text := "some take " + seconds(longest)
		if to.Sub(from) > longest+late {
			text += ", for " + seconds(to.Sub(from))
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "; ")
}

// span is from the beginning of the first to the end of the last call.
func span(calls []call) (from, to time.Time) {
	from = calls[0].at
	for _, call := range calls {
		if call.at.Before(from) {
			from = call.at
		}
		if call.end().After(to) {
			to = call.end()
		}
	}
	return from, to
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds())) }

// judge looks whether all that was accepted has become true: services are known, and jobs ran once.
func (s *scene) judge(c *callers) {
	s.t.Helper()
	if err := s.AwaitSettled(s.t.Context()); err != nil {
		s.t.Error(err)
	}
	api := s.client(client.DefaultTries, 0)
	for _, name := range c.services {
		if _, err := api.Replicas(s.t.Context(), name, ""); err != nil {
			s.t.Errorf("the accepted service %s: %v", name, err)
		}
	}
	var waiting *v1.Job
	err := await.Try(s.t.Context(), "all jobs have ended", func() (bool, error) {
		for _, id := range c.jobs {
			j, err := api.Job(s.t.Context(), id)
			if err != nil || j.State != v1.JobSucceeded {
				waiting = j
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		s.t.Errorf("%v: %+v", err, waiting)
	}
	ran := map[string]int{}
	for _, id := range clusters {
		local := steady
		if id != clusters[0] {
			local += "-" + id
		}
		for _, job := range s.Sim(id).Jobs(local) {
			ran[job.Event]++
		}
	}
	for event, id := range c.jobs {
		if ran[event] != 1 {
			s.t.Errorf("job %s, %s, ran %d times", id, event, ran[event])
		}
	}
	for event, times := range ran {
		if times > 1 {
			s.t.Errorf("job %s ran %d times", event, times)
		}
	}
	if len(c.services) == 0 || len(c.jobs) == 0 {
		s.t.Errorf("%d services and %d jobs were accepted: that shows nothing", len(c.services), len(c.jobs))
	}
}

func service(t *testing.T, name string, on ...string) *oscar.Service {
	t.Helper()
	text := fmt.Sprintf(`{"name":%q,"cluster_id":%q,"image":"ghcr.io/grycap/imagemagick","script":"#!/bin/sh\n","memory":"128Mi","cpu":"0.1"`, name, on[0])
	var others []string
	for _, id := range on[1:] {
		others = append(others, fmt.Sprintf(`{"type":"oscar","cluster_id":%q,"service_name":%q}`, id, name+"-"+id))
	}
	if len(others) > 0 {
		text += fmt.Sprintf(`,"federation":{"topology":"mesh","delegation":"static","group_id":%q,"members":[%s]}`, name, strings.Join(others, ","))
	}
	s, violations := oscar.ParseService([]byte(text + "}"))
	if len(violations) > 0 {
		t.Fatal(violations)
	}
	return s
}
