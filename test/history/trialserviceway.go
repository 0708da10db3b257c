package history

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// Trials of services that meet something in the middle of a change.

// bare is an OSCAR that tells of no serverless backend.
type bare struct{ syncer.OSCAR }

func (o bare) Info(ctx context.Context) (manager.Info, error) {
	info, err := o.OSCAR.Info(ctx)
	info.Serverless.Name = ""
	return info, err
}

// emptied changes an exposed service whose OSCAR has no serverless backend: a change would empty its script.
func (t *trial) emptied() error {
	_, err := t.api.CreateService(t.ctx, t.exposed("first"), client.CreateOptions{Wait: trialLate})
	t.cluster.Kill()
	t.cluster.Start(func(c *syncer.Config) { c.OSCAR = bare{c.OSCAR} })
	<-time.After(sessionOver)
	before := t.changes()
	_, changed := t.api.ChangeService(t.ctx, t.exposed("second"), client.ChangeOptions{Async: true})
	err = errors.Join(err, changed, t.isTold(record.ReasonUpdateFailed), t.phase(record.PhaseFailed))
	<-time.After(trialLate)
	if n := t.changes() - before; n > 0 {
		err = errors.Join(err, fmt.Errorf("it was changed %d times", n))
	}
	t.cluster.Kill()
	t.cluster.Start()
	return errors.Join(err, t.is("second"), t.phase(record.PhaseReady))
}

// bucketInPause ends the syncer when OSCAR is asked for a change, and deletes the bucket. The next one finds the service
// changed, and paused.
func (t *trial) bucketInPause() error {
	err := t.create(trialLate, nil)
	asked := t.sim.Next(oscarsim.OpUpdate)
	err = errors.Join(err, t.change("second"))
	<-asked
	t.cluster.Kill()
	wanted := t.service("second", nil).Script
	err = errors.Join(err, t.await("OSCAR has changed it", func() bool { return t.script(t.sim) == wanted }))
	t.sim.RemoveBucket(t.name)
	_, paused := t.api.Pause(t.ctx, t.name, "", true)
	before := t.changes()
	t.cluster.Start()
	<-time.After(trialLate)
	if n := t.changes() - before; n > 0 || t.hasBucket() {
		err = errors.Join(err, fmt.Errorf("it was changed %d times while it is paused", n))
	}
	_, resumed := t.api.Pause(t.ctx, t.name, "", false)
	return errors.Join(err, paused, resumed, t.await("its bucket is back", t.hasBucket), t.phase(record.PhaseReady), t.is("second"))
}

// deletedInChange has somebody delete the service when its OSCAR has refused a change. MinIO, which has its bucket, hangs
// for a while.
func (t *trial) deletedInChange() error {
	err := errors.Join(t.create(trialLate, nil), t.fails(oscarsim.OpUpdate), t.change("second"), t.phase(record.PhaseFailed),
		t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpDelete, Fault: oscarsim.FaultStall}))
	t.player.objects.forget(t.cluster, t.name)
	lives := t.lives()
	deleted := make(chan error, 1)
	go func() { deleted <- t.directly(http.MethodDelete, "/system/services/"+t.name, nil) }()
	err = errors.Join(err, awaitEach(time.Second, "the service is gone", func() bool { return t.gone(t.sim) }))
	for began := time.Now(); time.Since(began) < restarts; <-time.After(time.Second) {
		if phase := t.seenByOwner(); phase == record.PhaseDrifted || t.lives() > lives {
			err = errors.Join(err, fmt.Errorf("%v after it was deleted it is %s, and has had %d lives", time.Since(began), phase, t.lives()))
			break
		}
	}
	t.sim.ClearFaults()
	return errors.Join(err, <-deleted, t.is("second"), t.phase(record.PhaseReady), t.await("its bucket is back", func() bool {
		b, has := t.sim.Bucket(t.name)
		return has && slices.Contains(b.Notifies, t.name)
	}))
}

// restarts is how long a MinIO restarts that somebody's DELETE waits for.
const restarts = 10 * time.Second

// lives counts those that the OSCAR of the trial's cluster was asked for.
func (t *trial) lives() (n int) {
	for _, life := range t.sim.Lives() {
		if life.Service == t.name {
			n++
		}
	}
	return n
}

// overtaking is an OSCAR that makes the first change of a service after a while, or in the middle of its deletion, and does
// not answer it.
type overtaking struct {
	syncer.OSCAR
	service string

	mu    sync.Mutex
	begun bool
	due   func()
}

func (o *overtaking) Update(ctx context.Context, name string, body []byte, as manager.Bearer, timeout time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if name != o.service || o.begun {
		return o.OSCAR.Update(ctx, name, body, as, timeout)
	}
	o.begun = true
	o.due = sync.OnceFunc(func() { _ = o.OSCAR.Update(context.WithoutCancel(ctx), name, body, as, timeout) }) // nobody hears of it
	time.AfterFunc(stalledFor, o.due)
	return &manager.APIError{Op: manager.OpUpdate, Service: name, Err: context.DeadlineExceeded}
}

func (o *overtaking) Delete(ctx context.Context, name string, timeout time.Duration) error {
	o.mu.Lock()
	due := o.due
	o.mu.Unlock()
	if name == o.service && due != nil {
		due()
	}
	return o.OSCAR.Delete(ctx, name, timeout)
}

// changedInDeletion has OSCAR make a change in the middle of the deletion that follows it: with the change the service has
// its storage again, and its DELETE would empty the bucket.
func (t *trial) changedInDeletion() error {
	o := &overtaking{service: t.name}
	t.cluster.Kill()
	t.cluster.Start(func(c *syncer.Config) { o.OSCAR, c.OSCAR = c.OSCAR, o })
	<-time.After(sessionOver)
	err := t.create(trialLate, nil)
	t.player.objects.put(t.cluster, t.name, "in/kept")
	err = errors.Join(err, t.change("second"), awaitEach(wireDelay, "OSCAR is asked for it", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.begun
	}), t.delete(), t.nowhere())
	if b, _ := t.sim.Bucket(t.name); !slices.Contains(b.Objects, "in/kept") {
		err = errors.Join(err, fmt.Errorf("its bucket is %+v", b))
	}
	t.cluster.Kill()
	t.cluster.Start()
	return err
}
