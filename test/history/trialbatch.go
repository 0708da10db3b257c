package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
)

// batchTrials are those of services that one request creates.
func batchTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"services that are created together are everywhere":                       (*trial).together,
		"services that are created together are nowhere when one gets no vote":    (*trial).togetherUnvoted,
		"services that are created together are nowhere when one is refused":      (*trial).togetherRefused,
		"services that are created together end when one is deleted beside it":    (*trial).togetherDeleted,
		"services that are created together wait for the slowest of their OSCARs": (*trial).togetherSlow,
	}
}

// names are those of the trial's batch.
func (t *trial) names() (out []string) {
	for i := range batchSize {
		out = append(out, fmt.Sprintf("%s-%d", t.name, i))
	}
	return out
}

// createTogether creates the batch: the first service is everywhere, the others are not on the trial's cluster.
func (t *trial) createTogether(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(t.ctx, 2*limit)
	defer cancel()
	var all []*oscar.Service
	for i, name := range t.names() {
		one := *t
		one.name = name
		all = append(all, one.service("first", func(f *oscar.Federation) {
			if i > 0 {
				one.without(f)
			}
		}))
	}
	_, err := t.api.CreateServices(ctx, all, client.CreateOptions{Wait: limit})
	return err
}

// anywhere is how many services of the batch stand somewhere.
func (t *trial) anywhere() (n int) {
	for _, name := range t.names() {
		one := *t
		one.name = name
		if !one.everywhere(one.gone) {
			n++
		}
	}
	return n
}

// nowhereTogether demands that no service of the batch is left.
func (t *trial) nowhereTogether(err error) error {
	if n := t.anywhere(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d services stand", n))
	}
	return err
}

func (t *trial) together() error {
	err := t.createTogether(trialLate)
	if n := t.anywhere(); err == nil && n != batchSize {
		err = fmt.Errorf("%d services stand", n)
	}
	return err
}

func (t *trial) togetherUnvoted() error {
	t.cluster.Kill()
	defer t.cluster.Start()
	return t.nowhereTogether(refused(t.createTogether(trialSoon), v1.CodeUnavailable))
}

func (t *trial) togetherRefused() error {
	if err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.Fault500}); err != nil {
		return err
	}
	return t.nowhereTogether(refused(t.createTogether(trialLate), v1.CodeReplicaFailed))
}

// togetherDeleted deletes one of the others while the first one cannot be made, once at each step of the
// creation.
func (t *trial) togetherDeleted() error {
	var all error
	for _, at := range []record.Intent{record.IntentPrepare, record.IntentApply} {
		all = errors.Join(all, t.togetherDeletedAt(at))
		t.sim.ClearFaults()
	}
	return all
}

func (t *trial) togetherDeletedAt(at record.Intent) error {
	one := *t
	one.name = t.names()[0]
	hang := oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultHang}
	if at == record.IntentPrepare {
		hang.Op = oscarsim.OpBuckets
	}
	if err := t.sim.SetFault(hang); err != nil {
		return err
	}
	outcome := make(chan error, 1)
	go func() { outcome <- t.createTogether(trialLate) }()
	if err := t.await("the first one is asked for", func() bool { return one.intent() == at }); err != nil {
		return err
	}
	_, err := t.api.DeleteService(t.ctx, t.names()[1], client.DeleteOptions{})
	t.sim.ClearFaults()
	if <-outcome == nil {
		err = errors.Join(err, errors.New("they are created"))
	}
	return errors.Join(err, t.await("they are nowhere", func() bool { return t.anywhere() == 0 }))
}

// togetherSlow lets one OSCAR be slower than the others.
func (t *trial) togetherSlow() error {
	if err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultLate, Count: 1, Delay: trialSoon / 4}); err != nil {
		return err
	}
	return t.together()
}
