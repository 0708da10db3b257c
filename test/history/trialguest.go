package history

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// guestTrials are those with a cluster that leaves.
func guestTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a cluster that is removed while a creation wants it gets no replica": (*trial).removedMeanwhile,
		"a cluster with coordinators is removed by force alone":               (*trial).removedHome,
		"a cluster that is away is removed by force alone":                    (*trial).removedAway,
		"a job of a cluster that is removed by force has vanished":            (*trial).removedWithJob,
		"a cluster is removed when its jobs have ended":                       (*trial).removedAfterJob,
		"a job that waits on a cluster that is removed by force goes on":      (*trial).removedUnclaimed,
		"a cluster is removed when the tokens that it holds are revoked":      (*trial).removedWithToken,
		"a creation that is under way ends when its cluster is removed":       (*trial).removedApplying,
		"a cluster that is removed keeps its services, when that is ordered":  (*trial).keptOnRemoval,
		"a change that wants a cluster that is removed is refused":            (*trial).addedMeanwhile,
		"a removal that overtakes a creation there waits for a person":        (*trial).removedReady,
		"a service without our marks is kept when its cluster is removed":     (*trial).keptUnmarked,
		"a cluster with jobs that goes away while it is removed is told":      (*trial).removedWithJobAway,
		"a job that a removed cluster has claimed goes on":                    (*trial).removedClaimed,
		"a member that outlives its cluster's registration is kept":           func(t *trial) error { return t.outlives("cluster", t.stands) },
		"a member that outlives its cluster's registration goes":              func(t *trial) error { return t.outlives("store", t.gone) },
		"a federation that outlives its cluster's registration is taken up":   (*trial).outlivesAlone,
	}
}

// removedMeanwhile removes a cluster while a creation wants it: what it had got before goes, and it gets
// nothing more. The promises tell the latter.
func (t *trial) removedMeanwhile() error {
	guest := t.player.plan.Shape.guest()
	var all error
	for ways := range firstWay * 2 {
		wanted := t.alone(fmt.Sprintf("%s-%d", t.name, ways), "first")
		wanted.Federation.Topology = oscar.TopologyMesh
		wanted.Federation.Members = []oscar.Member{{Type: oscar.MemberOSCAR, ClusterID: guest, ServiceName: wanted.Name}}
		_ = t.during(ways, 0, func() func() {
			_, err := t.api.RemoveCluster(t.ctx, guest, client.RemoveClusterOptions{})
			all = errors.Join(all, err)
			return func() {}
		}, func(api *client.Client) error {
			_, err := api.CreateService(t.ctx, wanted, client.CreateOptions{Wait: trialSoon})
			return err // it is made, or the cluster is refused
		})
		all = errors.Join(all, t.goesOn())
	}
	return all
}

// home creates a service whose coordinator is on the guest.
func (t *trial) home(name string) error {
	guest := t.player.plan.Shape.guest()
	_, err := t.api.CreateService(t.ctx, t.player.users.definition(name, guest, Free{Op: freeCreate, Topology: "none"}), client.CreateOptions{Wait: trialLate})
	return err
}

// goesOn waits until the guest is removed, and registers it again.
func (t *trial) goesOn() error {
	guest := t.player.plan.Shape.guest()
	err := t.await("it is removed", func() bool {
		_, err := t.api.Cluster(t.ctx, guest)
		e, ok := errors.AsType[*client.Error](err)
		return ok && e.Code() == v1.CodeNotFound
	})
	return errors.Join(err, t.player.register(t.ctx, t.api, guest), t.await("it has a session", func() bool {
		_, err := t.player.w.Store.Get(t.ctx, record.SessionKey(guest))
		return err == nil
	}))
}

// remove orders the removal of the guest.
func (t *trial) remove(opts client.RemoveClusterOptions) error {
	_, err := t.api.RemoveCluster(t.ctx, t.player.plan.Shape.guest(), opts)
	return err
}

// manyHomes are more coordinators than a message names.
const manyHomes = 21

func (t *trial) removedHome() error {
	var err error
	for i := range manyHomes {
		err = errors.Join(err, t.home(fmt.Sprintf("%s-%d", t.name, i)))
	}
	err = errors.Join(err, refused(t.remove(client.RemoveClusterOptions{}), v1.CodeFailedPrecondition), t.remove(client.RemoveClusterOptions{Force: true}), t.goesOn())
	list, listed := t.api.Services(t.ctx)
	for _, s := range list {
		if s.ClusterID == t.player.plan.Shape.guest() {
			err = errors.Join(err, fmt.Errorf("%s has survived its coordinator", s.Name))
		}
	}
	return errors.Join(err, listed)
}

// onGuest creates the service with a member on the guest, and makes that cluster the trial's.
func (t *trial) onGuest(change func(*oscar.Service)) error {
	t.cluster = t.player.w.Cluster(t.player.plan.Shape.guest())
	t.sim = t.cluster.Sim
	s := t.service("first", func(f *oscar.Federation) { f.Members = append(f.Members, t.added()...) })
	if change != nil {
		change(s)
	}
	_, err := t.api.CreateService(t.ctx, s, client.CreateOptions{Wait: trialLate})
	return err
}

// removedAway removes the guest while its syncer is away, and while its OSCAR is: by force, after all.
func (t *trial) removedAway() error {
	err := t.onGuest(nil)
	t.cluster.OscarDies()
	<-time.After(trialLate)
	err = errors.Join(err, refused(t.remove(client.RemoveClusterOptions{}), v1.CodeFailedPrecondition))
	t.cluster.OscarLives()
	t.cluster.Kill()
	<-time.After(sessionOver)
	err = errors.Join(err, refused(t.remove(client.RemoveClusterOptions{}), v1.CodeFailedPrecondition), t.remove(client.RemoveClusterOptions{Force: true}))
	t.cluster.Start()
	return errors.Join(err, t.goesOn(), t.await("its service is gone", func() bool { return t.gone(t.sim) }))
}

// runsOnGuest creates the service with a member on the guest, and submits a job that runs there until the trial ends it.
func (t *trial) runsOnGuest() (id, name string, err error) {
	err = t.onGuest(nil)
	t.roomOnGuest()
	id, sent := t.send("one")
	name, kept := keep(t.sim, t.name, "one")
	return id, name, errors.Join(err, sent, kept, t.becomes(id, record.JobRunning))
}

// roomOnGuest leaves room for jobs on the guest only.
func (t *trial) roomOnGuest() (mend func()) {
	for i := range t.player.plan.Shape.Clusters {
		t.player.w.Cluster(clusterID(i)).Sim.SetNodes(oscarsim.Node{Name: "node", CPU: 1, Memory: 64 << 30})
	}
	<-time.After(trialSoon) // until it is reported
	return func() { t.full()() }
}

// removedWithJob removes the guest while a job runs there, whose syncer goes away.
func (t *trial) removedWithJob() error {
	id, name, err := t.runsOnGuest()
	err = errors.Join(err, t.remove(client.RemoveClusterOptions{}))
	<-time.After(trialSoon)
	t.cluster.Kill()
	<-time.After(sessionOver)
	err = errors.Join(err, t.remove(client.RemoveClusterOptions{Force: true}), t.becomes(id, record.JobVanished))
	err = errors.Join(err, t.sim.SetJobStatus(t.name, name, oscarsim.JobSucceeded))
	t.cluster.Start()
	t.full()()
	return errors.Join(err, t.goesOn())
}

// removedUnclaimed removes the guest, whose syncer is frozen, when a job is assigned to it.
func (t *trial) removedUnclaimed() error {
	err := t.onGuest(nil)
	mend := t.roomOnGuest()
	host := t.player.net.Host(t.cluster.Host())
	host.Freeze()
	id, sent := t.send("the event of " + t.name)
	err = errors.Join(err, sent, t.becomes(id, record.JobAssigned), t.remove(client.RemoveClusterOptions{Force: true}), t.withdrawn(id, record.JobWithdrawn))
	mend()
	err = errors.Join(err, t.runs(id))
	host.Thaw()
	return errors.Join(err, t.goesOn())
}

// removedWithToken removes the guest, which holds a refresh token that is to be revoked, while the issuer is away and
// then its syncer, too.
func (t *trial) removedWithToken() error {
	t.cluster = t.player.w.Cluster(t.player.plan.Shape.guest())
	t.player.renew(t.owner(), tokenLife)
	api := t.player.api(t.owner())
	s := t.player.users.definition(t.name, t.cluster.ID, Free{Op: freeCreate, Topology: "star", Members: 1})
	s.Visibility = oscar.VisibilityPrivate
	s.Environment.Secrets[oscar.RefreshTokenKey] = t.refreshed()
	_, err := api.CreateService(t.ctx, s, client.CreateOptions{Wait: trialLate})
	t.player.people.issuer.Answer(http.StatusServiceUnavailable)
	_, deleted := api.DeleteService(t.ctx, t.name, client.DeleteOptions{ClusterID: t.cluster.ID, Wait: trialSoon})
	err = errors.Join(err, deleted, t.remove(client.RemoveClusterOptions{}))
	<-time.After(trialSoon)
	t.cluster.Kill()
	<-time.After(sessionOver)
	t.cluster.Start()
	t.player.people.issuer.Answer(0)
	return errors.Join(err, t.goesOn())
}

// removedAfterJob removes the guest while a job runs there whose service somebody has deleted; its syncer goes for a
// while.
func (t *trial) removedAfterJob() error {
	id, name, err := t.runsOnGuest()
	t.sim.RemoveService(t.name)
	err = errors.Join(err, t.remove(client.RemoveClusterOptions{}))
	<-time.After(trialSoon)
	t.cluster.Kill()
	<-time.After(sessionOver)
	t.cluster.Start()
	_ = t.sim.SetJobStatus(t.name, name, oscarsim.JobSucceeded) // it may have gone with its service
	t.full()()
	return errors.Join(err, t.goesOn(), t.await("the job has ended", func() bool { return t.state(id).Ended() }))
}

// removedApplying removes the guest while its OSCAR does not answer a creation.
func (t *trial) removedApplying() error {
	t.cluster = t.player.w.Cluster(t.player.plan.Shape.guest())
	t.sim = t.cluster.Sim
	err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultHang})
	s := t.service("first", func(f *oscar.Federation) { f.Members = append(f.Members, t.added()...) })
	_, created := t.api.CreateService(t.ctx, s, client.CreateOptions{Async: true})
	err = errors.Join(err, created, t.await("it is applied", func() bool { return t.wholePhase() == record.PhaseApplying }))
	err = errors.Join(err, t.remove(client.RemoveClusterOptions{Force: true}))
	t.sim.ClearFaults()
	return errors.Join(err, t.goesOn(), t.await("the creation has ended", func() bool { return t.wholePhase().Result() }))
}

// keptOnRemoval removes the guest and keeps its services: one is stopped, and its OSCAR refuses changes for a while.
func (t *trial) keptOnRemoval() error {
	err := t.onGuest(func(s *oscar.Service) { s.Expose = t.exposed("first").Expose })
	err = errors.Join(err, t.order(true))
	<-time.After(trialSoon)
	err = errors.Join(err, t.fails(oscarsim.OpStart), t.remove(client.RemoveClusterOptions{Orphan: true}))
	<-time.After(trialSoon)
	t.sim.ClearFaults()
	err = errors.Join(err, t.fails(oscarsim.OpUpdate))
	<-time.After(trialSoon)
	t.sim.ClearFaults()
	err = errors.Join(err, t.goesOn())
	if view, stands := t.sim.Service(t.name); !stands || view.Annotations[oscar.AnnotationUID] != "" {
		err = errors.Join(err, fmt.Errorf("it stands: %v, and has marks: %v", stands, view.Annotations))
	}
	t.sim.RemoveService(t.name)
	return err
}

// keptUnmarked has somebody take our marks from the service on the guest before the removal that keeps it.
func (t *trial) keptUnmarked() error {
	err := t.onGuest(func(s *oscar.Service) { s.Federation.Drift = oscar.DriftReport })
	err = errors.Join(err, t.changeDirectlyTo(func(fields map[string]any) {
		delete(fields, "annotations")
		delete(fields, "federation")
	}), t.phase(record.PhaseDrifted))
	was := t.script(t.sim)
	err = errors.Join(err, t.remove(client.RemoveClusterOptions{Orphan: true}), t.goesOn())
	if t.gone(t.sim) || t.script(t.sim) != was {
		err = errors.Join(err, errors.New("it is not as its owner has left it"))
	}
	t.sim.RemoveService(t.name)
	return err
}

// removedWithJobAway ends the syncer of the guest as soon as its service is gone, whose job has not ended.
func (t *trial) removedWithJobAway() error {
	id, _, err := t.runsOnGuest()
	t.sim.RemoveService(t.name)
	err = errors.Join(err, t.remove(client.RemoveClusterOptions{}), awaitEach(seenLate/10, "its service is forgotten", func() bool {
		_, err := t.player.w.Store.Get(t.ctx, record.DesiredServiceKey(t.cluster.ID, t.name))
		return errors.Is(err, store.ErrNotFound)
	}))
	t.cluster.Kill()
	<-time.After(sessionOver)
	reg, read := t.api.Cluster(t.ctx, t.cluster.ID)
	if read == nil && (reg.Removal == nil || !reg.Removal.Blocked || !strings.Contains(reg.Removal.Waits, "has 1 jobs")) {
		err = errors.Join(err, fmt.Errorf("its removal is told as %+v", reg.Removal))
	}
	t.cluster.Start()
	t.full()()
	return errors.Join(err, read, t.goesOn(), t.await("the job has ended", func() bool { return t.state(id).Ended() }))
}

// removedClaimed removes the guest by force when its syncer has claimed a job, and is frozen then.
func (t *trial) removedClaimed() error {
	err := t.onGuest(nil)
	mend := t.roomOnGuest()
	slow := t.slowEtcd()
	id, sent := t.send("the event of " + t.name)
	err = errors.Join(err, sent, t.whenTold(id, record.JobClaimed))
	host := t.player.net.Host(t.cluster.Host())
	host.Freeze()
	slow()
	err = errors.Join(err, t.remove(client.RemoveClusterOptions{Force: true}), t.withdrawn(id, record.JobClusterLost))
	mend()
	err = errors.Join(err, t.runs(id))
	host.Thaw()
	return errors.Join(err, t.goesOn())
}

// removedReady removes the guest at the moment at which a service with its coordinator there is made: its syncer reports
// that before the order to remove is written, and control planes write what follows from it after that.
func (t *trial) removedReady() error {
	t.cluster = t.player.w.Cluster(t.player.plan.Shape.guest())
	t.sim = t.cluster.Sim
	host := t.player.net.Host(t.cluster.Host())
	made := make(chan error, 1)
	go func() { made <- t.home(t.name) }()
	err := awaitEach(wireDelay, "OSCAR has made it", func() bool { return t.stands(t.sim) })
	host.Freeze()
	const slow = 2 * time.Second
	mend := t.player.net.AddRule("control-plane-*", world.HostEtcd, wire.Rule{Delay: slow})
	removed := make(chan error, 1)
	go func() { removed <- t.remove(client.RemoveClusterOptions{}) }()
	<-time.After(slow * 5 / 2) // it is read twice, and then written
	host.Thaw()
	err = errors.Join(err, <-removed, <-made)
	mend()
	err = errors.Join(err, t.await("the removal waits", func() bool {
		reg, err := t.api.Cluster(t.ctx, t.cluster.ID)
		return err == nil && reg.Removal != nil && reg.Removal.Blocked && strings.Contains(reg.Removal.Waits, t.name)
	}))
	_, deleted := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{ClusterID: t.cluster.ID})
	return errors.Join(err, deleted, t.goesOn())
}

// addedMeanwhile removes the guest while a change waits for its vote.
func (t *trial) addedMeanwhile() error {
	err := t.create(trialLate, nil)
	t.cluster = t.player.w.Cluster(t.player.plan.Shape.guest())
	t.cluster.Kill()
	outcome := make(chan error, 1)
	go func() {
		_, err := t.api.AddReplicas(t.ctx, t.name, t.added(), client.ChangeOptions{Wait: trialSoon})
		outcome <- err
	}()
	err = errors.Join(err, t.await("the change waits", func() bool { f, err := t.federation(); return err == nil && f.Change != nil }))
	err = errors.Join(err, t.remove(client.RemoveClusterOptions{Force: true}), refused(<-outcome, v1.CodeFailedPrecondition))
	t.cluster.Start()
	return errors.Join(err, t.goesOn())
}

// outlives removes the guest by force while its OSCAR deletes nothing, and registers it again: a person decides about
// the service that still stands there.
func (t *trial) outlives(keep string, is func(*oscarsim.Sim) bool) error {
	err := errors.Join(t.onGuest(nil), t.removedUndeleted(), t.resolveAll(keep), t.await("it is as was decided", func() bool { return is(t.sim) }))
	if keep == "cluster" {
		err = errors.Join(err, t.phase(record.PhaseReady))
	}
	return err
}

// outlivesAlone does so with a service whose coordinator is on the guest.
func (t *trial) outlivesAlone() error {
	t.cluster = t.player.w.Cluster(t.player.plan.Shape.guest())
	t.sim = t.cluster.Sim
	err := errors.Join(t.home(t.name), refused(t.remove(client.RemoveClusterOptions{}), v1.CodeFailedPrecondition))
	err = errors.Join(err, t.removedUndeleted(), t.resolveAll("cluster"), t.phase(record.PhaseReady))
	_, deleted := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{ClusterID: t.cluster.ID, Wait: trialLate})
	return errors.Join(err, deleted)
}

// removedUndeleted removes the guest by force while its OSCAR deletes nothing, and registers it again, until it has
// told what still stands there.
func (t *trial) removedUndeleted() error {
	err := errors.Join(t.fails(oscarsim.OpDelete), t.remove(client.RemoveClusterOptions{Force: true}), t.goesOn())
	t.sim.ClearFaults()
	return errors.Join(err, t.await("its service differs", func() bool {
		found, err := t.api.Differences(t.ctx)
		return err == nil && len(found.Differences) > 0
	}))
}
