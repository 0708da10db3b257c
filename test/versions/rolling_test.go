package versions_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/process"
)

const (
	// rolled is the service that jobs are sent to while everything is replaced.
	rolled = "rolled"
	// between is the pause between two calls of one caller.
	between = 50 * time.Millisecond
)

// rollingInstances is how many control planes are replaced one by one.
const rollingInstances = 3

// callers use the API all the time, by a client that a user has: what it does not retry by itself, fails.
type callers struct {
	t   *testing.T
	api *client.Client

	// before says that syncers of the release before run.
	before atomic.Bool

	mu sync.Mutex
	// jobs are those that were accepted, by the number in their event, excused those that a syncer of the release
	// before may have left, and seen what a watch told of them last.
	jobs    map[int]string
	excused map[string]bool
	seen    map[string]string
	// calls and made count calls and services.
	calls, made int
}

// again calls until ctx ends. A call that has begun is finished.
func (c *callers) again(ctx context.Context, call func(ctx context.Context, n int) error) {
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(between):
		}
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		err := call(within, n)
		cancel()
		if err != nil {
			c.t.Errorf("a call failed: %v", err)
			return
		}
		c.mu.Lock()
		c.calls++
		c.mu.Unlock()
	}
}

func (c *callers) submit(ctx context.Context, n int) error {
	before := c.before.Load()
	job, err := c.api.SubmitJob(ctx, rolled, fmt.Appendf(nil, `{"n":%d}`, n), client.JobOptions{IdempotencyKey: fmt.Sprintf("rolled-%d", n)})
	if err != nil {
		return fmt.Errorf("job %d: %w", n, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs[n], c.excused[job.ID] = job.ID, before
	return nil
}

func (c *callers) read(ctx context.Context, _ int) error {
	if _, err := c.api.Replicas(ctx, rolled, ""); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// write creates a federation, changes it and deletes it.
func (c *callers) write(ctx context.Context, n int) error {
	name := fmt.Sprintf("brief%d", n)
	if _, err := c.api.CreateService(ctx, service(c.t, name, "128Mi", 10), client.CreateOptions{IdempotencyKey: name, Wait: patience}); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	if _, err := c.api.ChangeService(ctx, service(c.t, name, "256Mi", 10), client.ChangeOptions{IdempotencyKey: name + "-change", Wait: patience}); err != nil {
		return fmt.Errorf("change %s: %w", name, err)
	}
	if _, err := c.api.DeleteService(ctx, name, client.DeleteOptions{IdempotencyKey: name + "-delete", Wait: patience}); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made++
	return nil
}

// watch follows all jobs in one watch.
func (c *callers) watch(ctx context.Context) {
	err := c.api.WatchJobs(ctx, client.JobQuery{Service: rolled}, client.JobWatchOptions{}, func(j *v1.Job, _ int64) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen[j.ID] = j.State
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		c.t.Errorf("the watch ended: %v", err)
	}
}

// TestARollingUpgradeUnderLoad replaces every control plane and every syncer of the release before by today's, one
// after the other, finishes the upgrade, and restarts all once more. Meanwhile a user reads, sends jobs, creates,
// changes and deletes through a balancer, and watches: no call fails, no job is lost or runs twice, and the watch tells
// of each. A syncer of 0.1.0 that stops may leave a job of which it had said that it asks OSCAR, and did not ask: that one
// has vanished, and did not run.
func TestARollingUpgradeUnderLoad(t *testing.T) {
	r := newReleases(t, rollingInstances, rollingInstances)
	api, err := client.New(client.Config{Endpoint: "http://" + process.NewBalancer(t, process.BalancerConfig{Instances: func() []string { return r.Hosts(rollingInstances) }}), User: process.User, Password: process.Password})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.CreateService(t.Context(), service(t, rolled, "128Mi", 10), client.CreateOptions{IdempotencyKey: rolled, Wait: patience}); err != nil {
		t.Fatal(err)
	}
	c := &callers{t: t, api: api, jobs: map[int]string{}, excused: map[string]bool{}, seen: map[string]string{}}
	c.before.Store(true)
	calling, stop := context.WithCancel(t.Context())
	watching, unwatch := context.WithCancel(t.Context())
	var callers, watcher sync.WaitGroup
	for _, call := range []func(context.Context, int) error{c.submit, c.read, c.write} {
		callers.Go(func() { c.again(calling, call) })
	}
	watcher.Go(func() { c.watch(watching) })

	var instances []string
	for k := range rollingInstances {
		instances = append(instances, process.ControlPlaneName(k))
	}
	for _, program := range slices.Concat(instances, clusters) {
		r.become(false, program)
	}
	c.before.Store(false)
	if _, err := api.FinishUpgrade(t.Context()); err != nil {
		t.Error(err)
	}
	for _, program := range slices.Concat(clusters, instances) {
		r.become(false, program)
	}
	stop()
	callers.Wait()

	c.mu.Lock()
	jobs := maps.Clone(c.jobs)
	c.mu.Unlock()
	vanished, last := map[string]bool{}, map[string]string{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("jobs by number: %v; what was told or read of them last: %v", jobs, last)
		}
	})
	await.Until(t, "the watch has told of the end of each job", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for n, id := range jobs {
			state := c.seen[id]
			// A control plane of 0.1.0 whose stream breaks may have told of one job of a transaction only.
			if c.excused[id] && state != v1.JobVanished {
				if job, err := api.Job(t.Context(), id); err == nil {
					state = job.State
				}
			}
			last[id] = state
			switch state {
			case v1.JobSubmitted, v1.JobRunning, v1.JobSucceeded:
			case v1.JobVanished:
				vanished[id] = true
				if !c.excused[id] {
					t.Fatalf("job %d, %s, has vanished", n, id)
				}
			default:
				return false
			}
		}
		return true
	})
	unwatch()
	watcher.Wait()
	ran := map[string]int{}
	for _, id := range clusters {
		local := rolled
		if id != clusters[0] {
			local += "-" + id
		}
		for _, job := range r.Sim(id).Jobs(local) {
			ran[job.Event]++
		}
	}
	for n, id := range jobs {
		want := 1
		if vanished[id] {
			want = 0
		}
		if times := ran[fmt.Sprintf(`{"n":%d}`, n)]; times != want {
			t.Errorf("job %s ran %d times, want %d", id, times, want)
		}
	}
	if c.made == 0 || len(jobs) == 0 {
		t.Errorf("%d services were made, %d jobs sent: that shows nothing", c.made, len(jobs))
	}
	if err := r.AwaitSettled(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("%d calls, %d services created, changed and deleted, %d jobs, of which the release before left %d", c.calls, c.made, len(jobs), len(vanished))
}
