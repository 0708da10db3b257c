package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

// burstEvents are the numbers of the events of a burst, from which on nobody else has any.
const burstEvents = 1000

// Operations of a person who looks after jobs.
const (
	jobVanished = "resolve as vanished the job of"
	jobThere    = "resolve as submitted the job of"
)

// drawBurst draws, for some of the plans, more jobs than the clusters have capacity for, and by which
// policy they are delegated.
func (d *drawer) drawBurst(rng *rand.Rand) {
	if rng.IntN(3) == 0 {
		d.plan.Shape.Delegation = pick(rng, oscar.DelegationStatic, oscar.DelegationRandom, oscar.DelegationTopsis)
	}
	if rng.IntN(4) > 0 {
		return
	}
	at, gap := time.Duration(rng.Int64N(int64(d.length))), time.Duration(rng.Int64N(int64(500*time.Millisecond)))
	events := 20 + rng.IntN(40)
	for i := range events + rng.IntN(20) {
		j := Job{Op: jobSubmit, Event: burstEvents + i}
		if i >= events {
			j = Job{Op: pick(rng, jobCancel, jobCancel, jobReplay, jobVanished, jobThere), Event: burstEvents + rng.IntN(events)}
		}
		at += time.Duration(rng.Int64N(int64(2*gap) + 1))
		d.plan.Steps = append(d.plan.Steps, Step{At: at, Client: burstClient, Job: &j})
	}
}

const (
	// crowdEvents are the numbers of the events of a crowd. People have theirs from eventsOf on.
	crowdEvents = 5000
	// crowdClients submit them.
	crowdClients = 3
)

// drawCrowd draws, for a tenth of the plans, many jobs on clusters that run many at the same time.
func (d *drawer) drawCrowd(rng *rand.Rand) {
	if rng.IntN(10) > 0 {
		return
	}
	d.plan.Shape.Slots = pick(rng, 32, 64)
	with := &drawer{rng: rng, plan: d.plan, length: d.length}
	events := 0
	for client := range crowdClients {
		with.client(crowdClient+client, 200+rng.IntN(300), func() Step {
			j := &Job{Op: jobSubmit, Event: crowdEvents + events}
			if events > 0 && rng.IntN(20) == 0 {
				*j = Job{Op: pick(rng, jobCancel, jobCancel, jobReplay, jobVanished, jobThere), Event: crowdEvents + rng.IntN(events)}
			} else {
				events++
			}
			return Step{Job: j}
		})
	}
}

// delegation is the policy by which jobs are delegated.
func (s Shape) delegation() string {
	if s.Delegation == "" {
		return oscar.DelegationLoadBased
	}
	return s.Delegation
}

// settleJobs decides about parked jobs, as a person does: each is replayed once, and cancelled when
// it is parked again. It says which there were.
func (p *player) settleJobs(ctx context.Context) (open []string) {
	api := p.planes[0].client
	parked, err := api.Jobs(ctx, client.JobQuery{States: []string{string(record.JobParked)}, Limit: 1000})
	if err != nil {
		return []string{err.Error()}
	}
	for _, j := range parked.Jobs {
		number, replayed := p.users.eventOf(j.ID)
		if replayed == 0 {
			p.users.replays(number)
			_, err = api.ReplayJob(ctx, j.ID)
		} else {
			err = p.users.cancel(ctx, api, number, j.ID)
		}
		open = append(open, fmt.Sprintf("job %s is parked, replayed %d times: %v", j.ID, replayed, err))
	}
	return open
}

// eventOf is the number of the event of a job, and how often it was replayed.
func (u *users) eventOf(id string) (number, replayed int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for n, job := range u.jobs {
		if job == id {
			return n, u.replayed[n]
		}
	}
	return 0, 0
}

// replays counts that a person asks for another run of an event, also when the answer is lost.
func (u *users) replays(number int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.replayed[number]++
}
