package history

import (
	"errors"
	"fmt"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store/record"
)

// slowTrials are those with OSCARs whose writes take longer than they are waited for.
func slowTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a creation is refused on a cluster whose queue is too long": (*trial).longQueue,
	}
}

// longestQueue is more than wait at such an OSCAR before another creation is refused.
const longestQueue = 40

// longQueue creates more services than an OSCAR makes in good time.
func (t *trial) longQueue() error {
	_, err := t.api.CreateService(t.ctx, t.alone(t.name, "first"), client.CreateOptions{Wait: trialLate})
	for i := 0; err == nil; i++ {
		if i == longestQueue {
			return errors.New("none was refused")
		}
		one := t.named(fmt.Sprint("-", i))
		if _, err = t.api.CreateService(t.ctx, t.alone(one.name, "first"), client.CreateOptions{Async: true}); err != nil {
			return err
		}
		err = t.await("it is decided", func() bool { return one.wholePhase() != "" && one.wholePhase() != record.PhasePreparing })
		if one.wholePhase() == record.PhaseAborted {
			return errors.Join(err, one.refusedFor(record.ReasonQueueTooLong), t.named("-wide").besidesQueue())
		}
	}
	return err
}

// besidesQueue creates a service there and elsewhere: it is refused there.
func (t *trial) besidesQueue() error {
	err := errors.Join(refused(t.create(trialLate, nil), v1.CodeUnavailable), t.refusedFor(record.ReasonQueueTooLong))
	if reason := t.reason(); reason == record.ReasonQueueTooLong {
		err = errors.Join(err, errors.New("it is refused elsewhere, too"))
	}
	return err
}

// refusedFor demands why a creation was refused.
func (t *trial) refusedFor(reason record.Reason) error {
	list, err := t.api.Federations(t.ctx)
	for _, f := range list {
		for _, r := range f.Replicas {
			if r.ServiceName == t.name && r.Status != nil && r.Status.Reason == string(reason) {
				return nil
			}
		}
	}
	return errors.Join(err, fmt.Errorf("it was not refused for %s", reason))
}
