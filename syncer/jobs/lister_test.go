package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// pagedOscar has a list of jobs of so many pages, each with one job.
type pagedOscar struct {
	Pages
	pages int
	// asked counts the pages that were asked for, and together is told when two were at
	// the same time.
	asked, present atomic.Int32
	together       atomic.Bool
}

func (o *pagedOscar) Jobs(_ context.Context, service, page string) (manager.JobPage, error) {
	o.asked.Add(1)
	if o.present.Add(1) > 1 {
		o.together.Store(true)
	}
	defer o.present.Add(-1)
	number := 0
	if page != "" {
		if _, err := fmt.Sscan(page, &number); err != nil {
			return manager.JobPage{}, err
		}
	}
	out := manager.JobPage{Jobs: map[string]manager.Job{fmt.Sprintf("%s-%d", service, number): {Status: "Suspended"}}}
	if number++; o.pages == 0 || number < o.pages {
		out.Next = fmt.Sprint(number)
	}
	return out, nil
}

// answering is a Kubernetes with one answer to each list of Jobs.
type answering struct {
	kube.Absent
	jobs map[string]kube.JobStatus
	err  error
}

func (a answering) Jobs(context.Context, string) (map[string]kube.JobStatus, error) {
	return a.jobs, a.err
}

func sourceOf(k kube.Interface, o Pages) *anySource {
	return newSource(slog.New(slog.DiscardHandler), k, o)
}

func TestWhoIsAskedForJobs(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	for _, tc := range []struct {
		name string
		kube kube.Interface
		want map[string]string
		err  error
		// oscar is how many pages OSCAR is asked for.
		oscar int32
	}{
		{"no Kubernetes", kube.Absent{}, map[string]string{"svc-0": "Suspended", "svc-1": "Suspended"}, nil, 2},
		{"not allowed there", answering{err: fmt.Errorf("list: %w", kube.ErrDenied)}, map[string]string{"svc-0": "Suspended", "svc-1": "Suspended"}, nil, 2},
		{"Kubernetes away", answering{err: away}, nil, away, 0},
		{"not defined there", answering{err: kube.ErrNoService}, nil, kube.ErrNoService, 0},
		{"Kubernetes", answering{jobs: map[string]kube.JobStatus{
			"a": {Phase: kube.JobSucceeded}, "b": {Phase: kube.JobFailed}, "c": {Phase: kube.JobRunning}, "d": {Phase: kube.JobPending},
			"e": {Phase: kube.JobSuspended}, "f": {Phase: kube.JobUnclear},
		}}, map[string]string{"a": "Succeeded", "b": "Failed", "c": "Running", "d": "Pending", "e": "Suspended", "f": "Unknown"}, nil, 0},
	} {
		o := &pagedOscar{pages: 2}
		jobs, err := sourceOf(tc.kube, o).Jobs(t.Context(), "svc")
		if !errors.Is(err, tc.err) || err != nil && tc.err == nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if len(jobs) != len(tc.want) {
			t.Errorf("%s: %v", tc.name, jobs)
		}
		for name, status := range tc.want {
			job := jobs[name]
			if job.Status != status || job.Ended() != (status == "Succeeded" || status == "Failed") {
				t.Errorf("%s: %s is %+v, not %s", tc.name, name, job, status)
			}
		}
		if got := o.asked.Load(); got != tc.oscar {
			t.Errorf("%s: OSCAR was asked for %d pages, not %d", tc.name, got, tc.oscar)
		}
	}
}

// TestOnePageOfJobsAtATimeIsAskedOfOscar: while it makes one, everybody else waits.
func TestOnePageOfJobsAtATimeIsAskedOfOscar(t *testing.T) {
	t.Parallel()
	o := &pagedOscar{pages: 20}
	s := sourceOf(kube.Absent{}, o)
	const lists = 4
	errs := make(chan error, lists)
	for i := range lists {
		go func() {
			jobs, err := s.Jobs(t.Context(), fmt.Sprint("svc", i))
			if err == nil && len(jobs) != o.pages {
				err = fmt.Errorf("%d jobs", len(jobs))
			}
			errs <- err
		}()
	}
	for range lists {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if o.together.Load() {
		t.Error("two pages were asked for at the same time")
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.oscar.slot <- struct{}{}
	cancel()
	if _, err := s.Jobs(ctx, "svc"); !errors.Is(err, context.Canceled) {
		t.Errorf("it waited for its turn beyond its end: %v", err)
	}
	<-s.oscar.slot
	if _, err := sourceOf(kube.Absent{}, &pagedOscar{}).Jobs(t.Context(), "svc"); err == nil {
		t.Error("followed pages without end")
	}
}

func TestReportsAreCutToWhatATransactionHolds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		make  func(i int) change
		sizes []int
	}{
		{"ends", func(int) change { return change{} }, []int{100, 100, 50}},
		{"begins of one service", func(int) change { return change{replica: "a"} }, []int{100, 100, 50}},
		{"begins of one service each", func(i int) change { return change{replica: fmt.Sprint(i)} }, []int{60, 60, 60, 60, 10}},
		{"begins first, ends then", func(i int) change {
			if i < 30 {
				return change{replica: fmt.Sprint(i)}
			}
			return change{}
		}, []int{90, 100, 60}},
	} {
		var changes []*change
		for i := range 250 {
			c := tc.make(i)
			changes = append(changes, &c)
		}
		var sizes []int
		next := 0
		for _, part := range batches(changes) {
			replicas := map[string]bool{}
			for _, c := range part {
				if c != changes[next] {
					t.Fatalf("%s: report %d is not in its place", tc.name, next)
				}
				next++
				if c.replica != "" {
					replicas[c.replica] = true
				}
			}
			if n := len(part) + len(replicas) + 2; n > 128 {
				t.Errorf("%s: a transaction compares %d records", tc.name, n)
			}
			sizes = append(sizes, len(part))
		}
		if fmt.Sprint(sizes) != fmt.Sprint(tc.sizes) {
			t.Errorf("%s: parts of %v reports, not %v", tc.name, sizes, tc.sizes)
		}
	}
	if parts := batches(nil); len(parts) != 0 {
		t.Errorf("of nothing: %v", parts)
	}
}

// TestACountOfRunningJobsGetsOld: a service is not deleted on what was so long ago, on what
// was of another life, or on nothing.
func TestACountOfRunningJobsGetsOld(t *testing.T) {
	t.Parallel()
	c := NewCounts(&session.Session{Cluster: &session.Cluster{Now: time.Now}}, nil, nil)
	if c.Want("svc", "life"); c.Read("svc", "life", time.Now()) != nil {
		t.Error("it is known before it was taken")
	}
	began := time.Now()
	if c.took("svc", "life", began, 0, false, errors.New("away")) || c.Read("svc", "life", time.Now()) != nil {
		t.Error("an error counts as none")
	}
	if !c.took("svc", "life", began, 2, false, nil) {
		t.Error("the first count is no news")
	}
	if n := c.Read("svc", "life", time.Now()); n == nil || n.Running != 2 {
		t.Errorf("count %+v", n)
	}
	if n := c.Read("svc", "life", time.Now().Add(countAge)); n != nil {
		t.Errorf("an old count %+v", n)
	}
	if n := c.Read("svc", "another", time.Now()); n != nil {
		t.Errorf("that of another life: %+v", n)
	}
	if c.took("svc", "life", began, 1, false, nil) {
		t.Error("one less is news")
	}
	for _, change := range []struct {
		running int
		half    bool
	}{{0, false}, {0, true}, {0, false}, {1, false}} {
		if !c.took("svc", "life", time.Now(), change.running, change.half, nil) {
			t.Errorf("%+v is no news", change)
		}
	}
	if c.took("svc", "another", time.Now(), 0, false, nil) || c.Read("svc", "life", time.Now()).Running != 1 {
		t.Error("the count of another life was taken")
	}
	c.took("svc", "life", time.Now().Add(-time.Minute), 0, false, nil)
	if c.Read("svc", "life", time.Now().Add(3*time.Minute)) == nil {
		t.Error("a count that takes a minute is never believed long enough to act upon it")
	}
	if c.Want("svc", "another"); c.wanted("svc") != "another" {
		t.Error("the next life is not counted for")
	}
	if c.drop("svc", "life"); c.wanted("svc") != "another" {
		t.Error("the end of one life ends the counting for the next")
	}
	if c.drop("svc", "another"); c.wanted("svc") != "" {
		t.Error("it is counted for without end")
	}
}
