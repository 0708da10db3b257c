package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

const (
	// shortLoss is how long etcd's answers are lost when a control plane still finds out what came of
	// its write, and longLoss when it does not.
	shortLoss, longLoss = 5 * time.Second, 30 * time.Second
	// firstWay and lastWay are between which moments of a request something breaks, in times that a
	// message takes from one host to another.
	firstWay, lastWay = 3, 14
)

// moments are those of a request at which something breaks.
func moments() (out []int) {
	for ways := firstWay; ways <= lastWay; ways += 2 {
		out = append(out, ways)
	}
	return out
}

// alone is a service on the first cluster only.
func (t *trial) alone(name, script string) *oscar.Service {
	one := *t
	one.name = name
	return one.service(script, func(f *oscar.Federation) { f.Topology, f.Members = oscar.TopologyNone, nil })
}

// during makes a request to the trial's control plane. So many ways of the network later something is
// broken, for a time.
func (t *trial) during(ways int, length time.Duration, breaks func() (mend func()), request func(*client.Client) error) error {
	outcome := make(chan error, 1)
	go func() { outcome <- request(t.plane().client) }()
	<-time.After(time.Duration(ways) * (t.player.plan.Shape.Delay + wireDelay))
	mend := breaks()
	<-time.After(length)
	mend()
	return <-outcome
}

// plane is the control plane that the trial is about.
func (t *trial) plane() *plane { return t.player.planes[t.Plane%len(t.player.planes)] }

// loseAnswers keeps what etcd answers to the trial's control plane.
func (t *trial) loseAnswers() (mend func()) {
	return t.player.net.AddRule(world.HostEtcd, t.plane().name, wire.Rule{Cut: true})
}

// lostAnswers loses the answers to a few writes for a time in which others go on. What came of them
// can be found out, so it is told.
func (t *trial) lostAnswers() error {
	var all error
	for _, ways := range moments() {
		if err := t.lostAnswersAt(ways); err != nil {
			all = errors.Join(all, fmt.Errorf("when answers are lost after %d ways: %w", ways, err))
		}
	}
	return all
}

func (t *trial) lostAnswersAt(ways int) error {
	name := fmt.Sprintf("%s-%d", t.name, ways)
	if err := t.during(ways, shortLoss, t.loseAnswers, func(api *client.Client) error {
		_, err := api.CreateService(t.ctx, t.alone(name, "first"), client.CreateOptions{Wait: trialSoon})
		return err
	}); err != nil {
		return fmt.Errorf("the creation: %w", err)
	}
	if err := t.during(ways, shortLoss, t.loseAnswers, func(api *client.Client) error {
		_, err := api.ChangeService(t.ctx, t.alone(name, "second"), client.ChangeOptions{Wait: trialSoon})
		return err
	}); err != nil {
		return fmt.Errorf("the change: %w", err)
	}
	again := make(chan bool, 1)
	err := t.during(ways, shortLoss, t.loseAnswers, func(api *client.Client) error {
		go func() { again <- t.againOnce(name) }()
		_, err := api.DeleteService(t.ctx, name, client.DeleteOptions{})
		return err
	})
	made := <-again
	switch {
	case err != nil:
		return fmt.Errorf("the deletion: %w", err)
	case !made:
		return nil
	}
	<-time.After(time.Minute)
	there, err := t.exists(name)
	if err == nil && !there {
		err = errors.New("the deletion ended the next service of the name")
	}
	return err
}

// againOnce creates a service again as soon as its name is free; false when that is not soon.
func (t *trial) againOnce(name string) bool {
	for began := time.Now(); time.Since(began) < shortLoss*3/4; <-time.After(50 * time.Millisecond) {
		if there, err := t.exists(name); err == nil && !there {
			_, err := t.api.CreateService(t.ctx, t.alone(name, "third"), client.CreateOptions{})
			return err == nil
		}
	}
	return false
}

// exists says whether there is a service, as the first control plane knows.
func (t *trial) exists(name string) (bool, error) {
	_, err := t.api.Service(t.ctx, name, "")
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code() == v1.CodeNotFound {
		return false, nil
	}
	return err == nil, err
}

// longLost loses them until the control plane gives up.
func (t *trial) longLost() error {
	return t.toldTruly(longLoss, t.loseAnswers, client.CreateOptions{Wait: trialSoon})
}

// dies kills the control plane. Its client sends the request again, and finds nobody.
func (t *trial) dies() error {
	return t.toldTruly(shortLoss*4, func() func() {
		return t.player.stop(Fault{Kind: faultKill, On: t.plane().name})
	}, client.CreateOptions{Wait: trialSoon, IdempotencyKey: t.name})
}

// toldTruly makes creations while something breaks. One that is refused makes nothing.
func (t *trial) toldTruly(length time.Duration, breaks func() (mend func()), opts client.CreateOptions) error {
	refusals := map[string]error{}
	for _, ways := range moments() {
		name, one := fmt.Sprintf("%s-%d", t.name, ways), opts
		if one.IdempotencyKey != "" {
			one.IdempotencyKey = name
		}
		err := t.during(ways, length, breaks, func(api *client.Client) error {
			_, err := api.CreateService(t.ctx, t.alone(name, "first"), one)
			return err
		})
		if e, ok := errors.AsType[*client.Error](err); err != nil && (!ok || e.Code() != v1.CodeUnknownOutcome) {
			refusals[name] = err
		}
		<-time.After(longLoss)
	}
	var all error
	for name, refusal := range refusals {
		there, err := t.exists(name)
		if there {
			err = fmt.Errorf("%s is there, though its creation was answered with: %w", name, refusal)
		}
		all = errors.Join(all, err)
	}
	return all
}

// silentWatch lets a connection from etcd to the control plane fall silent, again and again. What others
// have done is shown nevertheless.
func (t *trial) silentWatch() error {
	for i := range 4 {
		mend := t.player.net.AddRule(world.HostEtcd, t.plane().name, wire.Rule{Hang: 1, Times: 1})
		for j, pause := range []time.Duration{0, trialSoon / 4} {
			<-time.After(pause)
			if err := t.shown(fmt.Sprintf("%s-%d-%d", t.name, i, j)); err != nil {
				return err
			}
		}
		mend()
	}
	return nil
}

// shown creates a service at one control plane, and demands that the other shows it.
func (t *trial) shown(name string) error {
	if _, err := t.api.CreateService(t.ctx, t.alone(name, "first"), client.CreateOptions{Async: true}); err != nil {
		return err
	}
	if _, err := t.plane().client.Federation(t.ctx, name); err != nil {
		return fmt.Errorf("%s was created, and another control plane says: %w", name, err)
	}
	return nil
}

// away cuts a control plane off while services come and go, and etcd forgets how.
func (t *trial) away() error {
	gone, came := t.name+"-gone", t.name+"-came"
	if _, err := t.api.CreateService(t.ctx, t.alone(gone, "first"), client.CreateOptions{Wait: trialSoon}); err != nil {
		return err
	}
	mend := t.player.net.Cut(world.HostEtcd, t.plane().name)
	_, deleted := t.api.DeleteService(t.ctx, gone, client.DeleteOptions{Wait: trialSoon})
	_, created := t.api.CreateService(t.ctx, t.alone(came, "first"), client.CreateOptions{Wait: trialSoon})
	<-time.After(longLoss)
	t.player.compact(t.ctx)
	mend()
	if err := errors.Join(deleted, created); err != nil {
		return err
	}
	<-time.After(longLoss)
	_, err := t.plane().client.CreateService(t.ctx, t.alone(gone, "again"), client.CreateOptions{Wait: trialSoon})
	_, shown := t.plane().client.Service(t.ctx, came, "")
	return errors.Join(err, shown)
}

// missedRefusal cuts a control plane off while a change that it waits for is refused, and another one
// follows.
func (t *trial) missedRefusal() error {
	if err := t.withoutLast(); err != nil {
		return err
	}
	if err := t.cluster.Sim.PutService(foreignDefinition(t.name, t.Cluster)); err != nil {
		return err
	}
	slow := t.player.net.AddRule(t.cluster.Host(), world.HostOSCAR(t.cluster.ID), wire.Rule{Delay: time.Second})
	outcome := make(chan error, 1)
	go func() {
		_, err := t.plane().client.AddReplicas(t.ctx, t.name, t.added(), client.ChangeOptions{Wait: trialSoon, IdempotencyKey: t.name})
		outcome <- err
	}()
	<-time.After(500 * time.Millisecond)
	mend := t.player.net.Cut(world.HostEtcd, t.plane().name)
	<-time.After(longLoss) // then its watch is opened anew
	slow()
	changed := t.service("second", t.without)
	_, err := t.api.ChangeService(t.ctx, changed, client.ChangeOptions{Wait: trialSoon})
	mend()
	t.cluster.Sim.RemoveService(t.name)
	return errors.Join(err, refused(<-outcome, v1.CodeAlreadyExists))
}

// without takes the trial's cluster out of a definition.
func (t *trial) without(f *oscar.Federation) {
	var kept []oscar.Member
	for _, m := range f.Members {
		if m.ClusterID != t.cluster.ID {
			kept = append(kept, m)
		}
	}
	f.Members = kept
}

// withoutLast creates the service everywhere but on the trial's cluster.
func (t *trial) withoutLast() error {
	ctx, cancel := context.WithTimeout(t.ctx, 2*trialLate)
	defer cancel()
	_, err := t.api.CreateService(ctx, t.service("first", t.without), client.CreateOptions{Wait: trialLate})
	return err
}

// added is the member on the trial's cluster.
func (t *trial) added() []oscar.Member {
	return []oscar.Member{{Type: oscar.MemberOSCAR, ClusterID: t.cluster.ID, ServiceName: t.name}}
}
