package history

import (
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
)

// originTrials are those of jobs that use the MinIO of their coordinator's cluster.
func originTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a job whose inputs cannot be read goes back, and runs when they can":         (*trial).inputsAway,
		"a job that fails while its inputs can be read has failed":                    (*trial).inputsThere,
		"a job that needs a token of its owner goes back, and runs when there is one": (*trial).inputsOwned,
	}
}

// origin creates a service of a person, whose jobs only the trial's cluster takes then.
func (t *trial) origin(refresh string) (back func() error, err error) {
	s := t.service("first", nil)
	s.Visibility, s.Environment.Secrets[oscar.RefreshTokenKey] = oscar.VisibilityPublic, refresh // a private one OSCAR would not find by a token of EGI
	_, err = t.player.api(t.owner()).CreateService(t.ctx, s, client.CreateOptions{Wait: trialLate})
	others := func(state record.ClusterState) (err error) {
		for i := range t.player.plan.Shape.Clusters {
			if other := *t; clusterID(i) != t.cluster.ID {
				other.cluster = t.player.w.Cluster(clusterID(i))
				err = errors.Join(err, other.setCluster(state))
			}
		}
		return err
	}
	err = errors.Join(err, t.await("the storage is in use", func() bool { return t.readable() }), others(record.ClusterCordoned))
	return func() error { return others(record.ClusterActive) }, err
}

// readable says whether the owner sees that the replica on the trial's cluster can use the storage of the origin.
func (t *trial) readable() bool {
	list, err := t.player.api(t.owner()).Replicas(t.ctx, t.name, "")
	if err != nil {
		return false
	}
	for _, r := range list.Replicas {
		if r.ClusterID == t.cluster.ID && r.Status != nil && r.Status.Inputs != nil {
			return r.Status.Inputs.Readable
		}
	}
	return false
}

// uploaded submits what MinIO sends of an upload of the owner to the coordinator's bucket. The Job waits at its OSCAR.
func (t *trial) uploaded() (id, name string, err error) {
	event := fmt.Sprintf(`{"EventName":"s3:ObjectCreated:Put","Key":"%[1]s/in/x","Records":[{"eventName":"s3:ObjectCreated:Put",`+
		`"requestParameters":{"principalId":%[2]q,"sourceIPAddress":"10.0.0.1"},"s3":{"bucket":{"name":"%[1]s"},"object":{"key":"in/x"}}}]}`, t.name, personSubject(t.owner().number))
	t.sim.HoldJob(event)
	if id, err = t.sentByOwner(event); err != nil {
		return "", "", err
	}
	name, err = t.waits(id, t.name, event)
	return id, name, err
}

// sentByOwner has the owner submit an event.
func (t *trial) sentByOwner(event string) (id string, err error) {
	sent, err := t.player.api(t.owner()).SubmitJob(t.ctx, t.name, []byte(event), client.JobOptions{})
	if err != nil {
		return "", err
	}
	return sent.ID, nil
}

// inputsAway ends the MinIO of the origin before the Job has started, which fails then.
func (t *trial) inputsAway() error {
	t.player.renew(t.owner(), tokenLife)
	home := t.player.w.Cluster(t.player.users.clusters[0]).Sim
	back, err := t.origin(t.refreshed())
	id, name, sent := t.uploaded()
	err = errors.Join(err, sent, home.SetFault(oscarsim.Fault{Op: oscarsim.OpHealth, Fault: oscarsim.FaultRefuse}))
	<-time.After(trialSoon)
	err = errors.Join(err, t.sim.SetJobStatus(t.name, name, oscarsim.JobFailed), t.withdrawn(id, record.JobInputsUnreadable))
	<-time.After(trialSoon)
	if state := t.state(id); state != record.JobQueued {
		err = errors.Join(err, fmt.Errorf("it is %s while its inputs cannot be read", state))
	}
	home.ClearFaults()
	return errors.Join(err, t.await("it has run", func() bool { return t.state(id) == record.JobSucceeded || t.state(id) == record.JobFailed }), back())
}

// inputsThere has the Job fail before it has started, though its inputs can be read.
func (t *trial) inputsThere() error {
	t.player.renew(t.owner(), tokenLife)
	back, err := t.origin(t.refreshed())
	id, name, sent := t.uploaded()
	<-time.After(trialSoon)
	err = errors.Join(err, sent, t.sim.SetJobStatus(t.name, name, oscarsim.JobFailed), t.becomes(id, record.JobFailed))
	return errors.Join(err, back())
}

// inputsOwned submits an event that names no user: its Job is made with an access token of the owner. That is over, and
// his refresh token is revoked, before OSCAR takes jobs.
func (t *trial) inputsOwned() error {
	closed := &closedToJobs{}
	t.cluster.Kill()
	t.cluster.Start(func(c *syncer.Config) { closed.OSCAR, c.OSCAR = c.OSCAR, closed })
	<-time.After(sessionOver)
	t.player.renew(t.owner(), past)
	first := t.refreshed()
	back, err := t.origin(first)
	id, sent := t.sentByOwner("the event of " + t.name)
	err = errors.Join(err, sent, t.whenTold(id, record.JobSubmitting))
	t.player.people.issuer.RevokeNow(first)
	err = errors.Join(err, t.withdrawn(id, record.JobNeedsUserToken), t.becomes(id, record.JobParked), t.started(0))
	closed.opened.Store(true)
	t.player.renew(t.owner(), tokenLife)
	_, given := t.player.api(t.owner()).SetRefreshToken(t.ctx, t.name, t.refreshed(), client.RefreshTokenOptions{})
	_, replayed := t.api.ReplayJob(t.ctx, id)
	err = errors.Join(err, given, replayed, t.runs(id), back())
	t.cluster.Kill()
	t.cluster.Start()
	return err
}
