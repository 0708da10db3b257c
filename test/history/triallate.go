package history

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// Trials of what an OSCAR does late, or by itself.

// vanish deletes a service behind the federation's back.
func (t *trial) vanish() error {
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	t.player.objects.forget(t.cluster, t.name)
	if _, _, err := t.player.w.TryDirectly(t.ctx, http.MethodDelete, t.cluster.URL+"/system/services/"+t.name, nil); err != nil {
		return err
	}
	return t.await("it is made again", func() bool { return t.stands(t.sim) })
}

// half keeps a service from being shown for a moment while OSCAR makes it, though it is listed.
func (t *trial) half() error {
	outcome := make(chan error, 1)
	asked := t.sim.Next(oscarsim.OpCreate)
	go func() { outcome <- t.create(trialLate, nil) }()
	<-asked
	t.sim.HalfCreate(t.name)
	<-time.After(time.Second)
	return errors.Join(t.sim.PutPodTemplate(t.name), <-outcome)
}

// afterAll lets OSCAR make a service long after its creation was given up.
func (t *trial) afterAll() error {
	const late = 20 * time.Minute
	if err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultLate, Delay: late}); err != nil {
		return err
	}
	if err := t.create(trialLate, nil); err == nil {
		return errors.New("it is created, and OSCAR has not made it")
	}
	t.sim.ClearFaults()
	before, err := t.player.w.Store.Read(t.ctx, record.MetaKey)
	if err != nil {
		return err
	}
	<-time.After(late)
	if err := t.await("it is nowhere", func() bool { return t.everywhere(t.gone) }); err != nil {
		return err
	}
	after, err := t.player.w.Store.Read(t.ctx, record.MetaKey)
	if n := after.Revision - before.Revision; err == nil && n > fewRevisions {
		err = fmt.Errorf("that took %d revisions", n)
	}
	return err
}

// fewRevisions are more than it takes to order one service away, and fewer than it takes to do so for as long as
// its cluster lists it.
const fewRevisions = 500

// successor ends the syncer that has asked OSCAR for a service, which makes it late, after it was deleted.
func (t *trial) successor() error {
	if err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultLate, Count: 1, Delay: sessionOver}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(t.ctx)
	asked, over := t.sim.Next(oscarsim.OpCreate), make(chan struct{})
	go func() {
		defer close(over)
		_, _ = t.api.CreateService(ctx, t.service("first", nil), client.CreateOptions{Wait: trialSoon}) // it is deleted meanwhile
	}()
	<-asked
	t.cluster.Kill()
	_, err := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{})
	t.cluster.Start()
	<-time.After(2 * sessionOver)
	cancel()
	<-over
	return errors.Join(err, t.await("it is nowhere", func() bool { return t.everywhere(t.gone) }))
}

// stalled makes a service anew under the name of one in whose DELETE OSCAR hangs before it takes the webhook.
func (t *trial) stalled() error {
	err := errors.Join(t.create(trialLate, nil), t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpDelete, Fault: oscarsim.FaultStall, Count: 1}))
	time.AfterFunc(stalledFor, t.sim.ClearFaults)
	err = errors.Join(err, t.delete(), awaitEach(time.Second, "it is made anew", func() bool { return t.create(trialLate, nil) == nil }))
	<-time.After(stalledFor)
	if view, stands := t.sim.Service(t.name); !stands || !view.Registered {
		err = errors.Join(err, errors.New("it is without its webhook"))
	}
	return err
}

// stalledFor is longer than a DELETE is waited for, and shorter than one may take effect that was not answered.
const stalledFor = 200 * time.Second

// overtaken changes a service twice, while what its syncer reports comes late.
func (t *trial) overtaken() error {
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	mend := t.player.net.AddRule(t.cluster.Host(), world.HostEtcd, wire.Rule{Delay: seenLate})
	var all error
	for i := range 4 {
		_, err := t.api.ChangeService(t.ctx, t.service(fmt.Sprint("version ", i), nil), client.ChangeOptions{Async: true})
		all = errors.Join(all, err)
		<-time.After(seenLate * 3 / 2)
	}
	mend()
	wanted := t.service("version 3", nil).Script
	return errors.Join(all, t.await("the last change is everywhere", func() bool {
		return t.everywhere(func(sim *oscarsim.Sim) bool { return t.script(sim) == wanted })
	}))
}

// seenByOwner says in which phase the API shows the replica on the trial's cluster.
func (t *trial) seenByOwner() record.Phase {
	list, err := t.api.Federations(t.ctx)
	if err != nil {
		return ""
	}
	for _, f := range list {
		for _, r := range f.Replicas {
			if r.ServiceName == t.name && r.ClusterID == t.cluster.ID && r.Status != nil {
				return record.Phase(r.Status.Phase)
			}
		}
	}
	return ""
}
