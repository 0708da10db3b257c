package history

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// Trials of jobs that something meets on their way.

const (
	// lastJobWay is when a job is with its OSCAR, in times that a message takes.
	lastJobWay = 16
	// sessionLost is longer than a syncer keeps a session that etcd does not answer about.
	sessionLost = 40 * time.Second
)

// stopsWithJob lets a syncer stop, and start again, at each moment of a job.
func (t *trial) stopsWithJob() error {
	return t.atEachWay(func() {
		t.cluster.Stop()
		t.cluster.Start()
	})
}

// silentWithJob lets a syncer lose its session at each moment of a job: etcd's answers do not reach it.
func (t *trial) silentWithJob() error {
	return t.atEachWay(func() {
		mend := t.player.net.AddRule(world.HostEtcd, t.cluster.Host(), wire.Rule{Cut: true})
		<-time.After(sessionLost)
		mend()
	})
}

// atEachWay submits jobs that only the trial's cluster can take. At each moment of one something happens: the job
// is started once all the same.
func (t *trial) atEachWay(happens func()) error {
	defer t.only()()
	var all error
	for ways := firstWay; ways <= lastJobWay; ways++ {
		number := t.event(ways)
		var sent sync.WaitGroup
		sent.Go(func() { t.player.users.job(t.ctx, Job{Op: jobSubmit, Event: number}) })
		<-time.After(time.Duration(ways) * (t.player.plan.Shape.Delay + wireDelay))
		happens()
		sent.Wait()
		id := t.player.users.jobs[number]
		err := t.await("the job ends", func() bool { return t.state(id).Ended() })
		if state, starts := t.state(id), t.player.w.Starts(event(number)); err == nil && (starts != 1 || state != record.JobSucceeded && state != record.JobFailed) {
			err = fmt.Errorf("it was started %d times, and is %s", starts, state)
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("after %d ways: %w", ways, err))
		}
	}
	return all
}

// lostSubmission loses etcd's answers for so long that the control plane gives up: it is told of the job when it
// is asked again, under the job's key.
func (t *trial) lostSubmission() error {
	var all error
	for _, ways := range moments() {
		key := fmt.Sprintf("%s-%d", t.name, ways)
		err := t.during(ways, longLoss, t.loseAnswers, func(api *client.Client) error {
			_, err := api.SubmitJob(t.ctx, jobService, []byte(key), client.JobOptions{IdempotencyKey: key})
			return err
		})
		if err != nil {
			all = errors.Join(all, fmt.Errorf("after %d ways: %w", ways, err))
		}
	}
	return all
}

// watched are the jobs of a trial of streams.
const watched = 30

// brokenWatch watches jobs over a connection that breaks again and again, while many of them change at once:
// the last state of each is told.
func (t *trial) brokenWatch() error {
	if err := t.refuseJobs(oscarsim.FaultDeny); err != nil {
		return err
	}
	mend := t.player.net.AddRule(t.plane().name, world.HostUsers, wire.Rule{Break: 0.3})
	var mu sync.Mutex
	told := map[string]record.JobState{}
	ctx, cancel := context.WithCancel(t.ctx)
	watch := world.Go(ctx, func(ctx context.Context) error {
		err := t.plane().client.WatchJobs(ctx, client.JobQuery{Service: jobService}, client.JobWatchOptions{}, func(j *v1.Job, _ int64) error {
			mu.Lock()
			defer mu.Unlock()
			told[j.ID] = record.JobState(j.State)
			return nil
		})
		if ctx.Err() == nil {
			return err // it ended by itself
		}
		return nil
	})
	<-time.After(time.Second)
	ids := make([]string, watched)
	var group sync.WaitGroup
	for i := range ids {
		group.Go(func() {
			sent, err := t.api.SubmitJob(t.ctx, jobService, fmt.Appendf(nil, "%s %d", t.name, i), client.JobOptions{})
			if err == nil {
				ids[i] = sent.ID
			}
		})
	}
	group.Wait()
	err := t.await("all jobs are parked", func() bool {
		for _, id := range ids {
			if t.state(id) != record.JobParked {
				return false
			}
		}
		return true
	})
	<-time.After(trialSoon)
	mu.Lock()
	for _, id := range ids {
		if told[id] != record.JobParked {
			err = errors.Join(err, fmt.Errorf("job %s is parked, and the last that is told of it is %q", id, told[id]))
		}
	}
	mu.Unlock()
	mend()
	cancel()
	err = errors.Join(err, watch.Stop(), t.refuseJobs(""))
	for _, id := range ids {
		_, cancelled := t.api.CancelJob(t.ctx, id)
		err = errors.Join(err, cancelled)
	}
	return err
}

// counted runs some jobs, and demands that the statistics count each once.
func (t *trial) counted() error {
	began := time.Now()
	if err := t.submitSome(); err != nil {
		return err
	}
	<-time.After(trialLate)
	stats, err := t.plane().client.Stats(t.ctx, "")
	if err != nil {
		return err
	}
	started, succeeded, failed, lately := 0, 0, 0, stats.Series
	for i := range lately.Started {
		if stats.At.Add(-time.Duration(len(lately.Started)-i) * time.Duration(lately.StepSeconds) * time.Second).After(began.Add(-sessionOver)) {
			started += lately.Started[i]
			succeeded += lately.Succeeded[i]
			failed += lately.Failed[i]
		}
	}
	// One that fails before a list has shown it running is not known to have started.
	if jobs := 2 * t.player.plan.Shape.All(); succeeded+failed != jobs || started < succeeded || started > jobs {
		err = fmt.Errorf("%d jobs have run, of which %d are counted as started, %d as succeeded and %d as failed", jobs, started, succeeded, failed)
	}
	return err
}
