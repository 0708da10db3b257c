package history

import (
	"errors"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
)

func (t *trial) vote() error {
	t.cluster.Kill()
	defer t.cluster.Start()
	return refused(t.create(trialSoon, nil), v1.CodeUnavailable)
}

func (t *trial) refusal() error {
	if err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.Fault500}); err != nil {
		return err
	}
	err := refused(t.create(trialLate, nil), v1.CodeReplicaFailed)
	if !t.everywhere(t.gone) {
		err = errors.Join(err, errors.New("it was answered while the service stands somewhere"))
	}
	return err
}

func (t *trial) silence() error {
	if err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultHang}); err != nil {
		return err
	}
	return refused(t.create(trialLate, nil), v1.CodeReplicaFailed)
}

// lost kills the syncer as soon as its replica is to be made. It may have made it all the same.
func (t *trial) lost() error {
	outcome := make(chan error, 1)
	go func() { outcome <- t.create(trialLate, nil) }()
	for began := time.Now(); t.intent() != record.IntentApply && time.Since(began) < trialSoon; {
		<-time.After(time.Millisecond)
	}
	t.cluster.Kill()
	err := <-outcome
	t.cluster.Start()
	if err == nil {
		return nil
	}
	return refused(err, v1.CodeReplicaFailed)
}

// intent is what is desired of the replica on the trial's cluster.
func (t *trial) intent() record.Intent {
	d, err := t.player.desired(t.ctx, t.cluster.ID, t.name)
	if err != nil {
		return ""
	}
	return d.Intent
}

func (t *trial) planeClock() error {
	return t.wrongClock(hostControlPlane(t.Plane))
}

func (t *trial) syncerClock() error {
	return t.wrongClock(t.cluster.Host())
}

func (t *trial) wrongClock(host string) error {
	mend := t.player.wrongClock(Fault{On: host, Amount: t.Ahead})
	<-time.After(sessionOver)
	err := t.create(trialLate, nil)
	mend()
	return err
}

func (t *trial) bestEffort() error {
	if t.player.plan.Shape.Clusters < 2 || t.Cluster == 0 {
		return nil // the coordinator is made by nobody else
	}
	t.cluster.Kill()
	err := t.create(trialLate, func(f *oscar.Federation) { f.Deployment = oscar.DeploymentBestEffort })
	t.cluster.Start()
	if err != nil {
		return err
	}
	return t.await("the service is everywhere", func() bool { return t.everywhere(t.stands) })
}

// deleteInChange deletes a service while one that is to be added has not voted.
func (t *trial) deleteInChange() error {
	if t.Cluster == 0 {
		return nil // the coordinator is there
	}
	all := t.service("first", nil).Federation.Members
	if err := t.create(trialLate, func(f *oscar.Federation) {
		f.Members = nil
		for _, m := range all {
			if m.ClusterID != t.cluster.ID {
				f.Members = append(f.Members, m)
			}
		}
	}); err != nil {
		return err
	}
	t.cluster.Kill()
	defer t.cluster.Start()
	added := oscar.Member{Type: oscar.MemberOSCAR, ClusterID: t.cluster.ID, ServiceName: t.name}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = t.api.AddReplicas(t.ctx, t.name, []oscar.Member{added}, client.ChangeOptions{Wait: trialSoon}) // it may hear either
	}()
	<-time.After(look)
	_, err := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{})
	<-asked
	if err != nil {
		return err
	}
	return t.await("the service is nowhere", func() bool { return t.everywhere(t.gone) })
}

func (t *trial) deleteData() error {
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	if _, err := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{Data: "delete", Jobs: "cancel"}); err != nil {
		return err
	}
	return t.await("neither the service nor its bucket is anywhere", func() bool {
		return t.everywhere(func(sim *oscarsim.Sim) bool { _, has := sim.Bucket(t.name); return !has && t.gone(sim) })
	})
}
