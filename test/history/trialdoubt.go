package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// doubtTrials are those of services of which OSCAR does not show all: whether it came as far as their webhook when it
// died in their POST, or whether they changed when it is of another version.
func doubtTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a service in whose POST OSCAR died is ready when its webhook is registered":   (*trial).registerFails,
		"a service in whose POST OSCAR died waits while its cluster is paused":         (*trial).registerRests,
		"a service that a dying OSCAR has made again is left alone while it is paused": (*trial).registerPaused,
		"a service that a dying OSCAR has made again is started before it is changed":  (*trial).registerStopped,
		"a service that a new version of OSCAR shows otherwise is not told as changed": (*trial).upgradedOSCAR,
		"a change that OSCAR makes in the middle of a deletion takes no bucket":        (*trial).changedInDeletion,
	}
}

// doubted makes the service, in whose POST OSCAR dies before webhook and buckets, and does something before the webhook
// is registered.
func (t *trial) doubted(meanwhile func() error) error {
	err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultCrash, Count: 1})
	outcome := make(chan error, 1)
	go func() { outcome <- t.create(trialLate, nil) }()
	return errors.Join(err, t.madeSo(), meanwhile(), <-outcome, t.await("its webhook is registered", func() bool {
		view, _ := t.sim.Service(t.name)
		return view.Registered
	}))
}

// remade has the service vanish, in whose POST OSCAR dies, too.
func (t *trial) remade() error {
	err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultCrash, Count: 1})
	t.sim.RemoveService(t.name)
	return errors.Join(err, t.madeSo())
}

// madeSo waits until OSCAR has made the service.
func (t *trial) madeSo() error {
	return awaitEach(time.Second, "OSCAR has made it", func() bool { return t.stands(t.sim) })
}

// registered is longer than it takes until a webhook is registered.
const registered = 30 * time.Second

// registerFails has OSCAR refuse to register it at first.
func (t *trial) registerFails() error {
	return t.doubted(func() error {
		return t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpUpdate, Fault: oscarsim.Fault500, Count: 1})
	})
}

func (t *trial) registerRests() error {
	return t.doubted(func() error {
		before := t.changes()
		err := t.setCluster(record.ClusterPaused)
		<-time.After(registered)
		if n := t.changes() - before; n > 0 {
			err = errors.Join(err, fmt.Errorf("it was changed %d times on a cluster that is paused", n))
		}
		return errors.Join(err, t.setCluster(record.ClusterActive))
	})
}

func (t *trial) registerPaused() error {
	err := errors.Join(t.create(trialLate, nil), t.remade())
	before := t.changes()
	_, paused := t.api.Pause(t.ctx, t.name, "", true)
	<-time.After(trialSoon)
	if n := t.changes() - before; n > 0 {
		err = errors.Join(err, fmt.Errorf("it was changed %d times while it is paused", n))
	}
	_, resumed := t.api.Pause(t.ctx, t.name, "", false)
	return errors.Join(err, paused, resumed, t.await("it is changed", func() bool { return t.changes() > before }), t.phase(record.PhaseReady))
}

// changes counts the PUTs of the service on the trial's cluster.
func (t *trial) changes() (n int) {
	for _, c := range t.sim.Log() {
		if c.Service == t.name && c.Op == oscarsim.OpUpdate {
			n++
		}
	}
	return n
}

// registerStopped has somebody stop the service first: OSCAR changes none that is stopped.
func (t *trial) registerStopped() error {
	err := errors.Join(t.createExposed(), t.remade(), t.orderDirectly("stop"))
	before := t.changes()
	return errors.Join(err, t.await("it is changed", func() bool { return t.changes() > before }), t.phase(record.PhaseReady), t.runsAs(true))
}

// newer is an OSCAR of another version, which shows one more field of each service. It tells its version when it may.
type newer struct {
	syncer.OSCAR
	tells <-chan struct{}
}

const newerVersion = "v99.0.0"

func (o newer) Info(ctx context.Context) (manager.Info, error) {
	select {
	case <-o.tells:
	case <-ctx.Done():
		return manager.Info{}, context.Cause(ctx)
	}
	info, err := o.OSCAR.Info(ctx)
	info.Version = newerVersion
	return info, err
}

func (o newer) Get(ctx context.Context, name string) (*manager.Service, error) {
	s, err := o.OSCAR.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	shown, err := shownNewer(*s)
	return &shown, err
}

func (o newer) List(ctx context.Context) ([]manager.Service, error) {
	all, err := o.OSCAR.List(ctx)
	for i := range all {
		var one error
		all[i], one = shownNewer(all[i])
		err = errors.Join(err, one)
	}
	return all, err
}

func shownNewer(s manager.Service) (manager.Service, error) {
	var fields map[string]any
	if err := json.Unmarshal(s.JSON, &fields); err != nil {
		return s, err
	}
	fields["new_of_this_version"] = true
	var err error
	s.JSON, err = json.Marshal(fields)
	return s, err
}

func (t *trial) upgradedOSCAR() error {
	err := t.create(trialLate, func(f *oscar.Federation) { f.Drift = oscar.DriftReport })
	err = errors.Join(err, t.await("it is known of which version it is", func() bool { return t.versionOf() != "" }))
	tells := make(chan struct{})
	t.cluster.Kill()
	t.cluster.Start(func(c *syncer.Config) { c.OSCAR = newer{c.OSCAR, tells} })
	<-time.After(trialLate)
	if phase := t.seenByOwner(); phase != record.PhaseReady {
		err = errors.Join(err, fmt.Errorf("it is %s", phase))
	}
	close(tells)
	err = errors.Join(err, t.await("it is of another version", func() bool { return t.versionOf() == newerVersion }), t.phase(record.PhaseReady))
	t.cluster.Kill()
	t.cluster.Start()
	return errors.Join(err, t.await("it is of the version before", func() bool { v := t.versionOf(); return v != "" && v != newerVersion }), t.phase(record.PhaseReady))
}

// versionOf is the version of the OSCAR that the last report is of.
func (t *trial) versionOf() string {
	if o := t.observed(); o != nil {
		return o.OscarVersion
	}
	return ""
}
