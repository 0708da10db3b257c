package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// restoreTrials are those in which etcd goes back to a backup: what happened since is lost.
func restoreTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a change that a restore has lost is kept until a person decides":             (*trial).lostChange,
		"a deletion that a restore has lost is not undone until a person decides":     (*trial).lostDeletion,
		"a service that failed at a backup, and is deleted since, is not made again":  (*trial).lostAfterFailure,
		"a deletion that a restore brings back spares what was made there since":      (*trial).lostSuccessor,
		"a creation that was asked for at a backup stands after its restore":          (*trial).lostVotes,
		"a creation that was under way at a backup stands after its restore":          (*trial).lostOutcome,
		"a job that was queued at a backup, and has run since, is not started again":  (*trial).lostRun,
		"a creation that a restore overtakes is made in the new history":              (*trial).overtakenByRestore,
		"a backup that is restored twice begins one epoch each time":                  (*trial).twice,
		"a service that vanishes before anybody knows of a restore is not made again": (*trial).restoredUnknown,
	}
}

// trialQuiet is how long nobody decides after a restore: longer than the deadlines of a creation, and than a syncer waits for a
// DELETE that an earlier one may have sent.
const trialQuiet = 6 * time.Minute

// goesBack puts etcd back to what it has now, after something else has happened.
func (t *trial) goesBack(how string, happens func() error) error {
	t.player.restore.file = ""
	t.player.backUp(t.ctx)
	if t.player.restore.file == "" {
		return errors.New("there is no backup")
	}
	if err := happens(); err != nil {
		return err
	}
	t.player.goBack(t.ctx, Fault{Kind: faultRestore, On: world.HostEtcd, What: how})
	return nil
}

// keeps demands that nothing of ours is begun, changed or ended after a restore while nobody decides.
func (t *trial) keeps(how string, happens func() error) error {
	var was map[string]string
	err := t.goesBack(how, func() error {
		err := happens()
		was = t.player.standing(nil)
		return err
	})
	if err != nil {
		return err
	}
	<-time.After(trialQuiet)
	if now := t.player.standing(nil); !maps.Equal(was, now) {
		err = fmt.Errorf("nobody has decided, and %v became %v", was, now)
	}
	meta, known := t.meta()
	if known == nil && meta.RestoredAt == nil {
		known = errors.New("the store was restored, and nobody has noticed it")
	}
	return errors.Join(err, known)
}

// decided is when the administrator has decided about everything that a restore has lost.
func (t *trial) decided() {
	t.player.settled("after the restore", t.player.administer, t.player.settleJobs, t.player.unsettled, t.player.different)
}

func (t *trial) lostChange() error {
	defer t.decided()
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	changed := t.service("second", nil)
	err := t.keeps(restoreLive, func() error {
		_, err := t.api.ChangeService(t.ctx, changed, client.ChangeOptions{Wait: trialLate})
		return err
	})
	if !t.everywhere(func(sim *oscarsim.Sim) bool { return t.script(sim) == changed.Script }) {
		err = errors.Join(err, errors.New("the change was overwritten"))
	}
	return err
}

func (t *trial) lostDeletion() error {
	defer t.decided()
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	return t.keeps(restoreStopped, func() error {
		_, err := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{Wait: trialLate})
		return err
	})
}

// lostAfterFailure makes the backup while OSCAR refuses a change. In the history that is lost the service was deleted.
func (t *trial) lostAfterFailure() error {
	defer t.decided()
	if err := errors.Join(t.create(trialLate, nil), t.fails(oscarsim.OpUpdate), t.change("second"), t.phase(record.PhaseFailed)); err != nil {
		return err
	}
	return t.keeps(restoreStopped, func() error {
		t.sim.ClearFaults()
		return errors.Join(t.delete(), t.nowhere())
	})
}

// lostSuccessor makes the backup while a deletion waits for a cluster. In the history that is lost it has ended, and
// there is another service of that name.
func (t *trial) lostSuccessor() error {
	defer t.decided()
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	t.cluster.Kill()
	if _, err := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{}); err != nil {
		return err
	}
	err := t.keeps(restoreLive, func() error {
		t.cluster.Start()
		return errors.Join(t.nowhere(), t.create(trialLate, nil))
	})
	if intent := t.intent(); intent != "" {
		err = errors.Join(err, fmt.Errorf("its record is still there: %s", intent))
	}
	return err
}

// lostVotes makes the backup while votes are waited for, and lostOutcome while services are made: in the
// history that is lost the services are in use. One of the clusters is away until long after the deadline.
func (t *trial) lostVotes() error { return t.underWay(record.IntentPrepare) }

func (t *trial) lostOutcome() error { return t.underWay(record.IntentApply) }

func (t *trial) underWay(at record.Intent) error {
	defer t.decided()
	outcome := make(chan error, 1)
	slow := t.player.net.AddRule(t.cluster.Host(), world.HostOSCAR(t.cluster.ID), wire.Rule{Delay: time.Second})
	go func() { outcome <- t.create(trialLate, nil) }()
	for began := time.Now(); t.intent() != at && time.Since(began) < trialSoon; {
		<-time.After(time.Millisecond)
	}
	err := t.keeps(restoreLive, func() error {
		slow()
		if err := <-outcome; err != nil {
			return err
		}
		t.cluster.Kill()
		return nil
	})
	t.cluster.Start()
	if err != nil {
		return err
	}
	return t.await("it is ready, and stands everywhere", func() bool {
		f, err := t.federation()
		return err == nil && f.Phase == record.PhaseReady && t.everywhere(t.stands)
	})
}

// lostRun has a job run on one cluster, which does not say so after the restore. The others are there, and could
// take it.
func (t *trial) lostRun() error {
	defer t.decided()
	var others []*world.Cluster
	for i := range t.player.plan.Shape.Clusters {
		c := t.player.w.Cluster(clusterID(i))
		c.Kill()
		if c != t.cluster {
			others = append(others, c)
		}
	}
	<-time.After(sessionOver)
	id, err := t.submit()
	if err != nil {
		return err
	}
	mend := func() {}
	err = t.goesBack(restoreLive, func() error {
		t.cluster.Start()
		err := t.await("the job has run", func() bool { return t.state(id).Ended() })
		t.cluster.Kill()
		for _, c := range others {
			c.Start()
		}
		mend = t.player.net.Cut("control-plane-*", world.HostEtcd)
		return err
	})
	err = errors.Join(err, t.await("the others have sessions", func() bool {
		return !slices.ContainsFunc(others, func(c *world.Cluster) bool {
			_, err := t.player.w.Store.Get(t.ctx, record.SessionKey(c.ID))
			return err != nil
		})
	}))
	mend()
	<-time.After(trialQuiet)
	t.cluster.Start()
	if err != nil {
		return err
	}
	err = t.await("the job is known again", func() bool { return t.state(id).Ended() })
	if starts := t.player.w.Starts("the event of " + t.name); starts != 1 {
		err = errors.Join(err, fmt.Errorf("it was started %d times", starts))
	}
	return err
}

// overtakenByRestore cuts a control plane off in the middle of a creation until there is another history. The
// promises tell whether what it writes then is of the old one.
func (t *trial) overtakenByRestore() error {
	defer t.decided()
	var all error
	for _, ways := range moments() {
		name := fmt.Sprintf("%s-%d", t.name, ways)
		err := t.during(ways, 0, func() func() {
			mend := t.player.net.Cut(t.plane().name, world.HostEtcd)
			all = errors.Join(all, t.newHistory())
			return mend
		}, func(api *client.Client) error {
			_, err := api.CreateService(t.ctx, t.alone(name, "first"), client.CreateOptions{Wait: trialSoon})
			return err
		})
		// Whether the history that is lost had it may be unknown.
		if e, ok := errors.AsType[*client.Error](err); err != nil && (!ok || e.Code() != v1.CodeUnknownOutcome) {
			all = errors.Join(all, fmt.Errorf("after %d ways: %w", ways, err))
		}
	}
	return all
}

// newHistory puts etcd back to what it has, but for a change of a cluster, and waits for the new epoch.
func (t *trial) newHistory() error {
	before, err := t.meta()
	if err != nil {
		return err
	}
	if err := t.goesBack(restoreLive, func() error {
		_, err := t.api.SetClusterState(t.ctx, t.cluster.ID, string(record.ClusterCordoned))
		return err
	}); err != nil {
		return err
	}
	return t.await("there is a new epoch", func() bool {
		now, err := t.meta()
		return err == nil && now.Epoch != before.Epoch
	})
}

// twice restores a backup that is older than a restore: an epoch begins that remembers the one that was lost. An
// instance that has seen the first restore and one that has not may begin one each.
func (t *trial) twice() error {
	defer t.decided()
	before, err := t.meta()
	if err != nil {
		return err
	}
	lost := before
	err = t.goesBack(restoreLive, func() error {
		if err := t.create(trialLate, nil); err != nil {
			return err
		}
		t.player.goBack(t.ctx, Fault{Kind: faultRestore, On: world.HostEtcd, What: restoreLive})
		return t.await("there is an epoch after the first restore", func() bool {
			now, err := t.meta()
			if err == nil {
				lost = now
			}
			return lost.Epoch != before.Epoch
		})
	})
	<-time.After(trialSoon)
	after, known := t.meta()
	for _, epoch := range append(slices.Clone(before.Epochs), lost.Epoch, before.Epoch) {
		if known == nil && !slices.Contains(after.Epochs, epoch) {
			err = errors.Join(err, fmt.Errorf("the epochs before are %v, without %v", after.Epochs, epoch))
		}
	}
	return errors.Join(err, known)
}

// restoredUnknown cuts control planes off before a restore, after which the service vanishes.
func (t *trial) restoredUnknown() error {
	defer t.decided()
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	var mend func()
	err := t.goesBack(restoreLive, func() error {
		err := t.changed("second")
		mend = t.player.net.Cut("control-plane-*", world.HostEtcd)
		return err
	})
	t.sim.RemoveService(t.name)
	for _, now := range []string{"anybody knows", "anybody decides"} {
		<-time.After(trialQuiet)
		if t.stands(t.sim) {
			err = errors.Join(err, fmt.Errorf("it was made again before %s", now))
		}
		mend()
	}
	return err
}

// meta is the record of the store's epochs.
func (t *trial) meta() (*record.Meta, error) {
	kv, err := t.player.w.Store.Get(t.ctx, record.MetaKey)
	if err != nil {
		return nil, err
	}
	return store.Decode[record.Meta](kv)
}
