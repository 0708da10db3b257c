package history

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

// Trials of exposed services, which are stopped and started.

// exposed is the service, exposed.
func (t *trial) exposed(script string) *oscar.Service {
	s := t.service(script, nil)
	s.Expose = t.player.users.definition(t.name, t.player.users.clusters[0], Free{Service: exposedService, Topology: "none"}).Expose
	return s
}

// createExposed creates it, and stops it.
func (t *trial) createExposed() error {
	_, err := t.api.CreateService(t.ctx, t.exposed("first"), client.CreateOptions{Wait: trialLate})
	return errors.Join(err, t.order(true), t.runsAs(true))
}

// order orders that the service is stopped, or started.
func (t *trial) order(stop bool) error {
	_, err := t.api.SetRunState(t.ctx, t.name, "", stop, time.Second)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code() != v1.CodeInternal {
		return nil // not yet
	}
	return err
}

// runsAs waits until the service is stopped everywhere, or runs.
func (t *trial) runsAs(stopped bool) error {
	return t.await(fmt.Sprintf("stopped is %v", stopped), func() bool {
		return t.everywhere(func(sim *oscarsim.Sim) bool {
			view, stands := sim.Service(t.name)
			return stands && view.Stopped == stopped
		})
	})
}

// changeStopped changes a stopped service while OSCAR does not start it, and lets somebody change it.
func (t *trial) changeStopped() error {
	err := errors.Join(t.createExposed(), t.fails(oscarsim.OpStart))
	_, changed := t.api.ChangeService(t.ctx, t.exposed("second"), client.ChangeOptions{Async: true})
	<-time.After(trialSoon)
	t.sim.ClearFaults()
	err = errors.Join(err, changed, t.is("second"), t.runsAs(true))
	err = errors.Join(err, t.changeStoppedDirectly(), t.fails(oscarsim.OpStart))
	<-time.After(trialSoon)
	t.sim.ClearFaults()
	err = errors.Join(err, t.is("second"), t.runsAs(true))
	return errors.Join(err, t.delete(), t.nowhere())
}

// changeStoppedDirectly starts the service, changes it and stops it, at its OSCAR.
func (t *trial) changeStoppedDirectly() error {
	return errors.Join(t.orderDirectly("start"), t.changeDirectly(), t.orderDirectly("stop"))
}

// orderDirectly stops or starts the service at its OSCAR.
func (t *trial) orderDirectly(order string) error {
	return t.directly(http.MethodPost, "/system/services/"+t.name+"/"+order, nil)
}

func (t *trial) startedDirectly() error {
	return errors.Join(t.createExposed(), t.orderDirectly("start"), t.runsAs(true))
}

// stopFails has OSCAR refuse to stop the service, and orders the opposite while the service is paused.
func (t *trial) stopFails() error {
	_, err := t.api.CreateService(t.ctx, t.exposed("first"), client.CreateOptions{Wait: trialLate})
	err = errors.Join(err, t.fails(oscarsim.OpStop), t.order(true))
	<-time.After(trialSoon)
	t.sim.ClearFaults()
	err = errors.Join(err, t.runsAs(true))
	_, paused := t.api.Pause(t.ctx, t.name, "", true)
	err = errors.Join(err, paused, t.order(false))
	<-time.After(trialSoon)
	view, _ := t.sim.Service(t.name)
	if !view.Stopped {
		err = errors.Join(err, errors.New("it was started while it is paused"))
	}
	_, resumed := t.api.Pause(t.ctx, t.name, "", false)
	return errors.Join(err, resumed, t.runsAs(false))
}
