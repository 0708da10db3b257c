package history

import (
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

// secretTrials are those of Secrets that an OSCAR leaves alone when it dies, where syncers see them.
func secretTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a Secret that is left in a creation is overwritten":                                    (*trial).secretCreated,
		"a Secret that is left in a creation that is taken back goes":                           (*trial).secretTakenBack,
		"a Secret of a user's service that is left in its deletion goes with his token":         (*trial).secretDeleted,
		"a Secret that is left in a deletion goes when OSCAR makes services again":              (*trial).secretOutlasts,
		"a Secret that stays for want of a token is overwritten by the next creation":           (*trial).secretInherited,
		"a Secret that stays for want of a token does not keep the next creation from its plan": (*trial).secretPlanned,
		"a Secret whose POST an earlier syncer has sent is overwritten":                         (*trial).secretSuccessor,
	}
}

// diesAt has OSCAR leave so many Secrets.
func (t *trial) diesAt(op oscarsim.Op, times int) error {
	return t.sim.SetFault(oscarsim.Fault{Op: op, Fault: oscarsim.FaultCrashSecret, Count: times})
}

// secrets counts those on the trial's cluster.
func (t *trial) secrets() int { return len(t.sim.State().Secrets) }

// hasSecret says what the service has in place of its secret.
func (t *trial) hasSecret() error {
	if view, _ := t.sim.Service(t.name); view.Secrets["KEY"] != secret {
		return fmt.Errorf("its secrets are %q", view.Secrets)
	}
	return nil
}

func (t *trial) secretCreated() error {
	return errors.Join(t.diesAt(oscarsim.OpCreate, 1), t.create(trialLate, nil), t.hasSecret(), t.delete(), t.nowhere())
}

// secretTakenBack has OSCAR die also when the service is made for the sake of its deletion, and in that.
func (t *trial) secretTakenBack() error {
	before := t.secrets()
	err := errors.Join(t.diesAt(oscarsim.OpCreate, 4), t.diesAt(oscarsim.OpDelete, 1), refused(t.create(trialLate, nil), v1.CodeReplicaFailed))
	return errors.Join(err, t.nowhere(), t.await("its Secret goes", func() bool { return t.secrets() == before }))
}

func (t *trial) secretDeleted() error {
	before := t.secrets()
	err := errors.Join(t.owned(t.refreshed()), t.diesAt(oscarsim.OpDelete, 1))
	_, deleted := t.player.api(t.owner()).DeleteService(t.ctx, t.name, client.DeleteOptions{Wait: trialLate})
	return errors.Join(err, deleted, t.nowhere(), t.await("its Secret goes", func() bool { return t.secrets() == before }))
}

// secretOutlasts has OSCAR make no services for some minutes, as one does whose Kubernetes refuses.
func (t *trial) secretOutlasts() error {
	before := t.secrets()
	err := errors.Join(t.create(trialLate, nil), t.diesAt(oscarsim.OpDelete, 1), t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.Fault500, Count: 8}))
	return errors.Join(err, t.delete(), t.nowhere(), t.await("its Secret goes", func() bool { return t.secrets() == before }))
}

// leavesSecret has the owner's token be over when his creation is taken back.
func (t *trial) leavesSecret() error {
	t.cluster = t.player.w.Cluster(t.player.users.clusters[0])
	t.sim = t.cluster.Sim
	before := t.secrets()
	t.player.renew(t.owner(), tokenOver)
	err := errors.Join(t.diesAt(oscarsim.OpCreate, 2), refused(t.createOwned(""), v1.CodeReplicaFailed), t.nowhere())
	<-time.After(trialLate)
	t.player.renew(t.owner(), tokenLife)
	if err == nil && t.secrets() == before {
		err = errors.New("no Secret is left")
	}
	return err
}

// secretInherited has the next creation be taken back, too, before its owner's third one.
func (t *trial) secretInherited() error {
	err := errors.Join(t.leavesSecret(), t.fails(oscarsim.OpCreate), refused(t.createOwned(""), v1.CodeReplicaFailed), t.nowhere())
	t.sim.ClearFaults()
	return errors.Join(err, t.createOwned(""), t.hasSecret())
}

// secretPlanned asks the clusters beforehand.
func (t *trial) secretPlanned() error {
	err := t.leavesSecret()
	s := t.alone(t.name, "first")
	s.Visibility = oscar.VisibilityPrivate
	plan, planned := t.player.api(t.owner()).Plan(t.ctx, s, client.PlanOptions{Ask: true})
	if err = errors.Join(err, planned); err != nil {
		return err
	}
	for _, r := range plan.Replicas {
		if r.Vote == nil || r.Vote.Answer != v1.VoteYes {
			err = errors.Join(err, fmt.Errorf("%s would vote %+v", r.ClusterID, r.Vote))
		}
	}
	return errors.Join(err, t.createOwned(""))
}

// secretSuccessor has the syncer die as soon as the Secret stands alone: the next one waits for the POST of before.
func (t *trial) secretSuccessor() error {
	before, outcome := t.secrets(), make(chan error, 1)
	err := t.diesAt(oscarsim.OpCreate, 1)
	go func() { outcome <- t.create(trialLate, nil) }()
	err = errors.Join(err, awaitEach(time.Second, "its Secret stands", func() bool { return t.secrets() > before }))
	t.cluster.Kill()
	t.cluster.Start()
	return errors.Join(err, <-outcome, t.hasSecret(), t.delete(), t.nowhere())
}
