package history

import (
	"errors"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// unclaimedTrials are those of an assignment that its syncer does not claim, since it is frozen.
func unclaimedTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a job that its syncer has not claimed ends when it is cancelled":            (*trial).cancelUnclaimed,
		"a job that its syncer has not claimed waits while its cluster is cordoned":  (*trial).cordonUnclaimed,
		"a job that its syncer has not claimed goes on without its member":           (*trial).removeUnclaimed,
		"a job that its syncer has not claimed ends with its service":                (*trial).deleteUnclaimed,
		"a job that its syncer has not claimed runs beside a change of its service":  (*trial).changeUnclaimed,
		"a job that its syncer has not claimed is assigned anew after a restore":     (*trial).restoreUnclaimed,
		"a job that its syncer has claimed is assigned anew after a restore":         (*trial).restoreClaimed,
		"a job that its syncer has not claimed is not begun on a cluster that rests": (*trial).pauseUnseen,
		"a job that its syncer has not claimed is refused without its member":        (*trial).removeUnseen,
	}
}

// unclaimed submits a job of a service of the trial that only the trial's cluster can take. Its syncer is frozen, and
// something happens when the job is assigned; then all is well again.
func (t *trial) unclaimed(happens func(id string) error) (id string, err error) {
	if err := t.create(trialLate, nil); err != nil {
		return "", err
	}
	back := t.only()
	host := t.player.net.Host(t.cluster.Host())
	host.Freeze()
	id, err = t.send("the event of " + t.name)
	err = errors.Join(err, t.becomes(id, record.JobAssigned))
	if err == nil {
		err = happens(id)
	}
	host.Thaw()
	back()
	return id, err
}

// withdrawn waits until a job is taken back, and says why.
func (t *trial) withdrawn(id string, reason record.JobReason) error {
	return t.await(fmt.Sprintf("the job is taken back: %s", reason), func() bool {
		j := t.player.w.Job(id)
		return j != nil && slices.ContainsFunc(j.Past, func(a record.Attempt) bool { return a.Reason == reason })
	})
}

func (t *trial) cancelUnclaimed() error {
	id, err := t.unclaimed(func(id string) error {
		_, err := t.api.CancelJob(t.ctx, id)
		return errors.Join(err, t.becomes(id, record.JobCancelled))
	})
	return errors.Join(err, t.becomes(id, record.JobCancelled))
}

func (t *trial) cordonUnclaimed() error {
	id, err := t.unclaimed(func(id string) error {
		return errors.Join(t.setCluster(record.ClusterCordoned), t.withdrawn(id, record.JobWithdrawn))
	})
	return errors.Join(err, t.setCluster(record.ClusterActive), t.runs(id))
}

func (t *trial) removeUnclaimed() error {
	id, err := t.unclaimed(func(id string) error {
		_, err := t.api.RemoveReplicas(t.ctx, t.name, t.added(), client.ChangeOptions{Async: true})
		return errors.Join(err, t.withdrawn(id, record.JobServiceGone))
	})
	return errors.Join(err, t.runs(id))
}

func (t *trial) deleteUnclaimed() error {
	id, err := t.unclaimed(func(id string) error {
		_, err := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{})
		return errors.Join(err, t.becomes(id, record.JobCancelled))
	})
	return errors.Join(err, t.becomes(id, record.JobCancelled))
}

func (t *trial) changeUnclaimed() error {
	id, err := t.unclaimed(func(string) error { return t.change("second") })
	return errors.Join(err, t.runs(id))
}

// unseen asks for something when a job is assigned, and lets its syncer see it before any control plane does.
func (t *trial) unseen(ask func() error, key string, told func(id string) error) (id string, err error) {
	slow := t.player.net.AddRule(world.HostEtcd, "control-plane-*", wire.Rule{Delay: seenLate})
	defer slow()
	asked := make(chan error, 1)
	id, err = t.unclaimed(func(id string) error {
		before, err := t.player.w.Store.Get(t.ctx, key)
		go func() { asked <- ask() }()
		err = errors.Join(err, awaitEach(wireDelay, "it is written", func() bool {
			now, err := t.player.w.Store.Get(t.ctx, key)
			return err == nil && now.ModRevision != before.ModRevision
		}))
		t.player.net.Host(t.cluster.Host()).Thaw()
		return errors.Join(err, told(id))
	})
	return id, errors.Join(err, <-asked)
}

// pauseUnseen pauses the cluster: its syncer rests, and a control plane takes the job back.
func (t *trial) pauseUnseen() error {
	pause := func() error { return t.setCluster(record.ClusterPaused) }
	id, err := t.unseen(pause, record.DesiredClusterKey(t.cluster.ID), func(id string) error { return t.withdrawn(id, record.JobWithdrawn) })
	return errors.Join(err, t.started(0), t.setCluster(record.ClusterActive), t.runs(id))
}

// removeUnseen removes the member: its syncer refuses the job.
func (t *trial) removeUnseen() error {
	remove := func() error {
		_, err := t.api.RemoveReplicas(t.ctx, t.name, t.added(), client.ChangeOptions{Async: true})
		return err
	}
	id, err := t.unseen(remove, record.DesiredServiceKey(t.cluster.ID, t.name), func(id string) error { return t.withdrawn(id, record.JobServiceGone) })
	return errors.Join(err, t.runs(id))
}

// newHistoryElsewhere loses a change of another cluster: one of the trial's would have the job taken back.
func (t *trial) newHistoryElsewhere() error {
	other := *t
	other.cluster = t.player.w.Cluster(t.player.users.clusters[0])
	return other.newHistory()
}

func (t *trial) restoreUnclaimed() error {
	defer t.decided()
	id, err := t.unclaimed(func(string) error { return t.newHistoryElsewhere() })
	return errors.Join(err, t.withdrawn(id, record.JobStoreRestored), t.runs(id))
}

func (t *trial) restoreClaimed() error {
	defer t.decided()
	var restored error
	id, back, err := t.claimed(func(string) {
		host := t.player.net.Host(t.cluster.Host())
		host.Freeze()
		restored = t.newHistoryElsewhere()
		host.Thaw()
	})
	back()
	return errors.Join(err, restored, t.withdrawn(id, record.JobStoreRestored), t.runs(id))
}
