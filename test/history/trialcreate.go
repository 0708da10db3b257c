package history

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/world"
)

func (t *trial) vote() error {
	t.cluster.Kill()
	defer t.cluster.Start()
	return refused(t.create(trialSoon, nil), v1.CodeUnavailable)
}

// almostAway is a little less than a cluster is given before it counts as away.
const almostAway = 20 * time.Second

// voteAway asks for a vote when the syncer is about to report that its OSCAR is away, and then of a cluster that is.
func (t *trial) voteAway() error {
	t.cluster.OscarDies()
	defer t.cluster.OscarLives()
	<-time.After(almostAway)
	first, again := t.create(trialSoon, nil), t.create(trialSoon, nil)
	return errors.Join(refused(first, v1.CodeUnavailable), refused(again, v1.CodeUnavailable))
}

// voteHangs asks for a vote while OSCAR takes connections and answers nothing: the refusal says so.
func (t *trial) voteHangs() error {
	if err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpAny, Fault: oscarsim.FaultHang}); err != nil {
		return err
	}
	err := t.create(trialSoon, nil)
	t.sim.ClearFaults()
	return errors.Join(refused(err, v1.CodeUnavailable), t.refusedFor(record.ReasonOscarUnreachable))
}

// voteGone asks for a vote when the session of the syncer is about to end.
func (t *trial) voteGone() error {
	host := t.player.net.Host(t.cluster.Host())
	host.Freeze()
	defer host.Thaw()
	<-time.After(almostAway)
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

// failedTwice has OSCAR refuse two creations. What is kept of both goes when the service is deleted.
func (t *trial) failedTwice() error {
	var all error
	for range 2 {
		all = errors.Join(all, t.refusal())
	}
	t.sim.ClearFaults()
	_, deleted := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{})
	_, err := t.api.Replicas(t.ctx, t.name, "")
	return errors.Join(all, deleted, refused(err, v1.CodeNotFound))
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

// changeVote adds a member whose syncer has just ended. The change is refused at its deadline, and not when
// the syncer's session ends, some seconds later.
func (t *trial) changeVote() error {
	if t.Cluster == 0 {
		return nil // the coordinator is there
	}
	if err := t.withoutLast(); err != nil {
		return err
	}
	t.cluster.Kill()
	defer t.cluster.Start()
	began := time.Now()
	_, err := t.api.AddReplicas(t.ctx, t.name, t.added(), client.ChangeOptions{Wait: trialSoon})
	if took := time.Since(began); took > votesOver {
		return fmt.Errorf("it was answered after %v: %w", took, err)
	}
	return refused(err, v1.CodeUnavailable)
}

// votesOver is longer than votes are waited for, and shorter than the session of a syncer outlives it.
const votesOver = 18 * time.Second

// changeBesides changes a service while an administrator changes the state of a cluster again and again.
func (t *trial) changeBesides() error {
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	var all error
	for _, ways := range moments() {
		changed := t.service(fmt.Sprint("changed ", ways), nil)
		all = errors.Join(all, t.during(ways, 0, func() func() {
			return func() {
				for _, state := range []record.ClusterState{record.ClusterCordoned, record.ClusterActive} {
					_, err := t.api.SetClusterState(t.ctx, t.cluster.ID, string(state))
					all = errors.Join(all, err)
				}
			}
		}, func(api *client.Client) error {
			_, err := api.ChangeService(t.ctx, changed, client.ChangeOptions{Wait: trialSoon})
			return err
		}))
	}
	return all
}

// pauseBesides pauses a service while it is changed: neither is lost.
func (t *trial) pauseBesides() error {
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	var all error
	for ways := firstWay; ways <= lastWay; ways++ {
		outcome := make(chan error, 1)
		if err := t.during(ways, 0, func() func() {
			return func() {
				_, err := t.api.Pause(t.ctx, t.name, "", ways%2 == 1)
				outcome <- err
			}
		}, func(api *client.Client) error {
			_, err := api.ChangeService(t.ctx, t.service(fmt.Sprint("changed ", ways), nil), client.ChangeOptions{Async: true})
			return err
		}); err != nil {
			all = errors.Join(all, err)
		}
		f, err := t.federation()
		all = errors.Join(all, <-outcome, err)
		if want := int64(2 + ways - firstWay); err == nil && (f.Generation != want || f.Paused != (ways%2 == 1)) {
			all = errors.Join(all, fmt.Errorf("after %d ways it is generation %d, paused %v", ways, f.Generation, f.Paused))
		}
	}
	return all
}

// federation is the record of the service's federation.
func (t *trial) federation() (*record.Federation, error) {
	d, err := t.player.desired(t.ctx, t.player.users.clusters[0], t.name)
	if err != nil {
		return nil, err
	}
	kv, err := t.player.w.Store.Get(t.ctx, record.FederationKey(d.Federation))
	if err != nil {
		return nil, err
	}
	return store.Decode[record.Federation](kv)
}

// leaves removes a member, and adds it again.
func (t *trial) leaves() error {
	if t.Cluster == 0 {
		return nil // the coordinator does not leave
	}
	err := t.create(trialLate, nil)
	if err != nil {
		return err
	}
	if _, err := t.api.RemoveReplicas(t.ctx, t.name, t.added(), client.ChangeOptions{Wait: trialSoon}); err != nil {
		return err
	}
	if err := t.await("it is gone where it was removed", func() bool { return t.gone(t.sim) }); err != nil {
		return err
	}
	if _, err := t.api.AddReplicas(t.ctx, t.name, t.added(), client.ChangeOptions{Wait: trialSoon}); err != nil {
		return err
	}
	return t.await("it is everywhere again", func() bool { return t.everywhere(t.stands) })
}

// oldVote adds two members. One votes, and is cut off before it is asked again, as a pause does. The other
// votes late.
func (t *trial) oldVote() error {
	other := t.player.w.Cluster(clusterID(t.player.plan.Shape.Clusters - 1))
	if other == t.cluster || t.Cluster == 0 {
		return nil
	}
	members := t.added()
	members = append(members, oscar.Member{Type: oscar.MemberOSCAR, ClusterID: other.ID, ServiceName: t.name})
	if err := t.create(trialLate, func(f *oscar.Federation) {
		f.Members = slices.DeleteFunc(f.Members, func(m oscar.Member) bool { return m.ClusterID == t.cluster.ID || m.ClusterID == other.ID })
	}); err != nil {
		return err
	}
	silent := t.player.net.Cut(other.Host(), world.HostEtcd)
	outcome := make(chan error, 1)
	go func() {
		_, err := t.api.AddReplicas(t.ctx, t.name, members, client.ChangeOptions{Wait: trialSoon})
		outcome <- err
	}()
	<-time.After(time.Second)
	mend := t.player.net.Cut(t.cluster.Host(), world.HostEtcd)
	_, paused := t.api.Pause(t.ctx, t.name, "", true)
	silent()
	err := refused(<-outcome, v1.CodeUnavailable)
	mend()
	_, resumed := t.api.Pause(t.ctx, t.name, "", false)
	return errors.Join(paused, err, resumed)
}

// lateReport: what a syncer reports after it has made a service reaches etcd when its session is over.
func (t *trial) lateReport() error {
	return t.late(oscarsim.OpCreate, true, func() error {
		_ = t.create(trialLate, nil) // it may be refused meanwhile
		return nil
	})
}

// late lets what a syncer tells etcd come late, from when its OSCAR was asked for something, and then read.
// The promises tell whether what comes after its session is taken.
func (t *trial) late(after oscarsim.Op, read bool, request func() error) error {
	f := Fault{Kind: faultLag, On: t.cluster.Host(), To: world.HostEtcd, After: after, Read: read, Amount: 40 * time.Second, For: sessionOver}
	come := make(chan bool, 1)
	go func() { come <- t.player.comes(t.ctx, f) }()
	outcome := make(chan error, 1)
	go func() { outcome <- request() }()
	if !<-come {
		return errors.Join(<-outcome, errors.New("OSCAR was not asked"))
	}
	mend := t.player.begin(t.ctx, f)
	<-time.After(f.For)
	mend()
	return <-outcome
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

// deleteVolume deletes a service with its data, whose volume OSCAR does not delete at first, and whose cluster is
// paused then.
func (t *trial) deleteVolume() error {
	t.cluster = t.player.w.Cluster(t.player.users.clusters[0])
	t.sim = t.cluster.Sim
	s := t.alone(t.name, "first")
	s.Volume = &oscar.Volume{Size: "1Gi", MountPath: "/data"}
	_, err := t.api.CreateService(t.ctx, s, client.CreateOptions{Wait: trialLate})
	there := func() bool { _, has := t.sim.Volume(oscar.OwnerAdmin, t.name); return has }
	if err == nil && !there() {
		err = errors.New("it has no volume")
	}
	err = errors.Join(err, t.fails(oscarsim.OpVolumeDelete))
	_, deleted := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{Data: "delete"})
	err = errors.Join(err, deleted, t.await("the service is gone", func() bool { return t.gone(t.sim) }))
	<-time.After(trialSoon)
	err = errors.Join(err, t.setCluster(record.ClusterPaused))
	t.sim.ClearFaults()
	<-time.After(trialSoon)
	if !there() {
		err = errors.Join(err, errors.New("its volume was deleted while the cluster was paused"))
	}
	return errors.Join(err, t.setCluster(record.ClusterActive), t.await("its volume is gone", func() bool { return !there() }))
}
