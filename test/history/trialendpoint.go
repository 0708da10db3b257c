package history

import (
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
)

// Trials of jobs that go to an endpoint.

// endpointTrials are those with a member that is an endpoint.
func endpointTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a job that an endpoint refuses is parked, and runs when it is replayed after that": (*trial).endpointRefuses,
		"a job that an endpoint does not answer is sent once, and waits for a person":       (*trial).endpointBreaks,
		"a job whose control planes die while an endpoint works waits for a person":         (*trial).endpointOrphans,
		"a job that an endpoint refuses when its service is gone is cancelled":              (*trial).endpointLate,
		"a job that an endpoint works on is not cancelled":                                  (*trial).endpointWorks,
		"a job that waits for capacity is cancelled with its service":                       (*trial).waitsInVain,
	}
}

// sent is a trial with a service whose jobs have room only at an endpoint.
type sent struct {
	*trial
	at *endpoint
	// mend gives the clusters their room back.
	mend func()
}

func (t *trial) endpoint() (sent, error) {
	s := sent{trial: t, at: newEndpoint(), mend: func() {}}
	url := t.player.net.Host(t.name).Serve(t.player.t, s.at)
	wanted := t.alone(t.name, "first")
	wanted.Federation.Topology, wanted.Federation.Members = oscar.TopologyStar, []oscar.Member{{Type: oscar.MemberEndpoint, URL: url}}
	if _, err := t.api.CreateService(t.ctx, wanted, client.CreateOptions{Wait: trialLate}); err != nil {
		return s, err
	}
	s.mend = t.full()
	return s, nil
}

// full leaves no room for jobs on any cluster.
func (t *trial) full() (mend func()) {
	give := func(cpu int64) {
		for i := range t.player.plan.Shape.All() {
			t.player.w.Cluster(clusterID(i)).Sim.SetNodes(oscarsim.Node{Name: "node", CPU: cpu, Memory: 64 << 30})
		}
		<-time.After(trialSoon) // until it is reported
	}
	give(1)
	return func() { give(int64(t.player.plan.Shape.Slots) * 1000) }
}

// send submits an event, and gives the id of its job.
func (t *trial) send(event string) (string, error) {
	job, err := t.api.SubmitJob(t.ctx, t.name, []byte(event), client.JobOptions{IdempotencyKey: t.name + event})
	if err != nil {
		return "", err
	}
	return job.ID, nil
}

// becomes waits until a job has a state.
func (t *trial) becomes(id string, state record.JobState) error {
	if err := t.await(fmt.Sprintf("the job is %s", state), func() bool { return t.state(id) == state }); err != nil {
		return fmt.Errorf("%w; it is %q", err, t.state(id))
	}
	return nil
}

// came demands how often an event has come to the endpoint, and was taken.
func (s sent) came(event string, asked, taken int) error {
	if a, b := s.at.of(event); a != asked || b != taken {
		return fmt.Errorf("event %q has come %d times and was taken %d times, not %d and %d", event, a, b, asked, taken)
	}
	return nil
}

// working submits an event to a service with an endpoint, and returns while that works on it, until goOn is called.
func (t *trial) working() (s sent, id string, goOn func(), err error) {
	if s, err = t.endpoint(); err != nil {
		return s, "", nil, err
	}
	goOn = s.at.holds()
	if id, err = t.send("one"); err == nil {
		<-s.at.arrived
	}
	return s, id, goOn, err
}

// tries is how often a job may be refused.
const tries = 5

func (t *trial) endpointRefuses() error {
	s, err := t.endpoint()
	defer s.mend()
	if err != nil {
		return err
	}
	s.at.answers(endpointRefuses)
	id, err := t.send("one")
	if err != nil {
		return err
	}
	err = errors.Join(t.becomes(id, record.JobParked), s.came("one", tries, 0))
	s.at.answers(endpointTakes)
	_, replayed := t.api.ReplayJob(t.ctx, id)
	return errors.Join(err, replayed, t.becomes(id, record.JobSucceeded), s.came("one", tries+1, 1))
}

// endpointBreaks sends two jobs that are not answered. A person looks at the endpoint, and decides.
func (t *trial) endpointBreaks() error {
	s, err := t.endpoint()
	defer s.mend()
	if err != nil {
		return err
	}
	for event, c := range map[string]struct {
		answer      endpointAnswer
		taken       int
		as, becomes record.JobState
	}{
		"one": {endpointBreaks, 0, record.JobVanished, record.JobVanished},
		"two": {endpointLoses, 1, record.JobSubmitted, record.JobSucceeded},
	} {
		s.at.answers(c.answer)
		id, sent := t.send(event)
		err = errors.Join(err, sent, t.becomes(id, record.JobUncertain))
		<-time.After(trialLate)
		_, cancelled := t.api.CancelJob(t.ctx, id)
		_, resolved := t.api.ResolveJob(t.ctx, id, string(c.as))
		_, again := t.api.ResolveJob(t.ctx, id, string(c.as))
		err = errors.Join(err, refused(cancelled, v1.CodeFailedPrecondition), resolved, refused(again, v1.CodeFailedPrecondition),
			t.becomes(id, c.becomes), s.came(event, 1, c.taken))
	}
	return err
}

// endpointOrphans ends every control plane while the endpoint works.
func (t *trial) endpointOrphans() error {
	s, id, goOn, err := t.working()
	defer s.mend()
	if err != nil {
		return err
	}
	var start []func()
	for _, pl := range t.player.planes {
		start = append(start, t.player.stop(Fault{Kind: faultKill, On: pl.name}))
	}
	goOn()
	for _, again := range start {
		again()
	}
	err = t.becomes(id, record.JobUncertain)
	_, resolved := t.api.ResolveJob(t.ctx, id, string(record.JobSubmitted))
	return errors.Join(err, resolved, t.becomes(id, record.JobSucceeded), s.came("one", 1, 1))
}

// endpointLate deletes the service while the endpoint works, which then refuses.
func (t *trial) endpointLate() error {
	s, id, goOn, err := t.working()
	defer s.mend()
	if err != nil {
		return err
	}
	_, err = t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{})
	s.at.answers(endpointRefuses)
	goOn()
	return errors.Join(err, t.becomes(id, record.JobCancelled), s.came("one", 1, 0))
}

// endpointWorks cancels a job while the endpoint works on it.
func (t *trial) endpointWorks() error {
	s, id, goOn, err := t.working()
	defer s.mend()
	if err != nil {
		return err
	}
	_, cancelled := t.api.CancelJob(t.ctx, id)
	goOn()
	return errors.Join(refused(cancelled, v1.CodeFailedPrecondition), t.becomes(id, record.JobSucceeded), s.came("one", 1, 1))
}

// waitsInVain deletes a service with a job that no cluster has capacity for.
func (t *trial) waitsInVain() error {
	if _, err := t.api.CreateService(t.ctx, t.alone(t.name, "first"), client.CreateOptions{Wait: trialLate}); err != nil {
		return err
	}
	defer t.full()()
	id, err := t.send("one")
	if err != nil {
		return err
	}
	<-time.After(trialSoon)
	if state := t.state(id); state != record.JobQueued {
		err = fmt.Errorf("it is %s, and there is no room for it", state)
	}
	_, deleted := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{})
	return errors.Join(err, deleted, t.becomes(id, record.JobCancelled))
}
