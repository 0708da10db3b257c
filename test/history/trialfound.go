package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// foundTrials are those of what a restore of etcd finds on the clusters.
func foundTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"jobs that a restore has lost are as their clusters have them":          (*trial).foundJobs,
		"jobs that were queued at a backup are as their clusters have them":     (*trial).foundQueued,
		"a job that was assigned at a backup is as its cluster has it":          (*trial).foundAssigned,
		"a job that was replayed since a backup is at its later attempt":        (*trial).foundLater,
		"a job that was released after a restore tells where it ran before":     (*trial).foundBesides,
		"a Job that somebody names as ours is told after a restore":             (*trial).foundForeign,
		"a job that is cancelled after a restore ends where it is found":        (*trial).foundCancelled,
		"a job that was claimed at a backup is not sent before that is known":   (*trial).foundUnknown,
		"a change that waited for votes at a backup is refused":                 (*trial).lostChangeVotes,
		"a creation that was asked for at a backup, and changed since, is held": (*trial).aheadOfVote,
		"a deletion of what was changed since a backup waits for a person":      (*trial).aheadOfDeletion,
		"a service that has lost its marks before a restore is held":            (*trial).unmarked,
		"a deletion that a restore has lost is undone when a person says so":    (*trial).deletionUndone,
		"a service that has lost its marks on a revoked cluster is held":        (*trial).unmarkedRevoked,
		"a service that has lost its marks on a revoked cluster can be kept":    (*trial).unmarkedKept,
		"a creation that a restore has lost is taken up when a person says so":  (*trial).creationTakenUp,
		"a lost deletion of a paused service is undone when its pause ends":     (*trial).pausedUndone,
		"a change that waits for the end of a pause outlives a restore":         (*trial).pausedChange,
	}
}

// at submits a job that only the trial's cluster can take, and gives its Job there a status.
func (t *trial) at(status string) (id string, err error) {
	var name string
	id, name, err = t.standsAt()
	return id, errors.Join(err, t.sim.SetJobStatus(jobService, name, status))
}

// ends lets the job of the trial's event succeed on its cluster, if it has not ended, and demands that it was
// started so often.
func (t *trial) ends(id string, starts int) error {
	var err error
	if !t.state(id).Ended() {
		err = errors.Join(t.sim.SetJobStatus(jobService, t.atOSCAR(), oscarsim.JobSucceeded), t.becomes(id, record.JobSucceeded))
	}
	return errors.Join(err, t.started(starts))
}

// statuses are what a Job can be, and what its job is then.
func statuses() map[string]record.JobState {
	return map[string]record.JobState{
		oscarsim.JobPending: record.JobAssigned, oscarsim.JobRunning: record.JobRunning, oscarsim.JobSucceeded: record.JobSucceeded,
		oscarsim.JobFailed: record.JobFailed,
	}
}

func (t *trial) foundJobs() error {
	defer t.decided()
	defer t.only()()
	ids := map[string]string{}
	err := t.goesBack(restoreLive, func() error {
		var all error
		for status := range statuses() {
			id, err := t.named(status).at(status)
			ids[status] = id
			all = errors.Join(all, err)
		}
		<-time.After(trialSoon)
		return all
	})
	for status, state := range statuses() {
		err = errors.Join(err, t.becomes(ids[status], state), t.named(status).ends(ids[status], 1))
	}
	return err
}

// named is the trial by another name.
func (t *trial) named(name string) *trial {
	one := *t
	one.name = t.name + name
	return &one
}

func (t *trial) foundQueued() error {
	defer t.decided()
	defer t.only()()
	var all error
	for _, status := range []string{oscarsim.JobRunning, oscarsim.JobSucceeded, oscarsim.JobFailed} {
		one, state := t.named(status), statuses()[status]
		one.cluster.Kill()
		<-time.After(sessionOver)
		id, err := one.submit()
		err = errors.Join(err, one.goesBack(restoreLive, func() error {
			one.cluster.Start()
			name, err := keep(one.sim, jobService, "the event of "+one.name)
			return errors.Join(err, one.sim.SetJobStatus(jobService, name, status), one.becomes(id, state))
		}))
		if err == nil {
			err = errors.Join(one.becomes(id, state), one.ends(id, 1))
		}
		all = errors.Join(all, err)
	}
	return all
}

// foundAssigned makes the backup while a job is assigned whose syncer has not claimed it.
func (t *trial) foundAssigned() error {
	<-time.After(2 * trialLate) // what the session of the syncer has sent is known by then
	defer t.decided()
	defer t.only()()
	host := t.player.net.Host(t.cluster.Host())
	host.Freeze()
	id, err := t.submit()
	err = errors.Join(err, t.becomes(id, record.JobAssigned), t.goesBack(restoreLive, func() error {
		host.Thaw()
		_, err := keep(t.sim, jobService, "the event of "+t.name)
		return errors.Join(err, t.becomes(id, record.JobRunning))
	}))
	return errors.Join(err, t.becomes(id, record.JobRunning), t.ends(id, 1))
}

// foundLater has the second attempt of a job, which was running at the backup, wait at its OSCAR.
func (t *trial) foundLater() error {
	defer t.decided()
	defer t.only()()
	id, name, err := t.standsAt()
	err = errors.Join(err, t.goesBack(restoreLive, func() error {
		err := errors.Join(t.sim.SetJobStatus(jobService, name, oscarsim.JobFailed), t.becomes(id, record.JobFailed))
		_, replayed := t.api.ReplayJob(t.ctx, id)
		later := ""
		err = errors.Join(err, replayed, awaitEach(shortestRun/4, "OSCAR has the next attempt", func() bool { later = t.laterThan(name); return later != "" }))
		return errors.Join(err, t.sim.SetJobStatus(jobService, later, oscarsim.JobPending))
	}))
	err = errors.Join(err, t.await("it is at its second attempt", func() bool { j := t.player.w.Job(id); return j != nil && j.Attempt == 2 }))
	return errors.Join(err, t.sim.SetJobStatus(jobService, t.laterThan(name), oscarsim.JobSucceeded), t.becomes(id, record.JobSucceeded), t.started(2))
}

// foundBesides has a job fail that was queued at the backup, and run again. Its cluster does not say so after the restore, and
// a person releases the job: it runs elsewhere when both attempts are found. Its record tells of the cluster once.
func (t *trial) foundBesides() error {
	defer t.decided()
	back := t.only()
	home := t.player.w.Cluster(t.player.users.clusters[0])
	t.cluster.Kill()
	<-time.After(sessionOver)
	id, err := t.submit()
	var again string
	err = errors.Join(err, t.goesBack(restoreLive, func() error {
		t.cluster.Start()
		first, err := keep(t.sim, jobService, "the event of "+t.name)
		err = errors.Join(err, t.sim.SetJobStatus(jobService, first, oscarsim.JobFailed), t.becomes(id, record.JobFailed))
		_, replayed := t.api.ReplayJob(t.ctx, id)
		err = errors.Join(err, replayed, awaitEach(shortestRun/4, "OSCAR has the next attempt", func() bool { again = t.laterThan(first); return again != "" }))
		err = errors.Join(err, t.sim.SetJobStatus(jobService, again, oscarsim.JobRunning), t.becomes(id, record.JobRunning))
		t.cluster.Kill()
		return err
	}))
	back()
	<-time.After(trialQuiet)
	err = errors.Join(err, t.started(2))
	for i := 1; i < t.player.plan.Shape.Clusters; i++ {
		if c := t.player.w.Cluster(clusterID(i)); c != t.cluster {
			c.Kill()
			defer c.Start()
		}
	}
	<-time.After(sessionOver)
	_, released := t.api.ReplayJob(t.ctx, id)
	next, kept := keep(home.Sim, jobService, "the event of "+t.name)
	err = errors.Join(err, released, kept, t.becomes(id, record.JobRunning))
	t.cluster.Start()
	err = errors.Join(err, t.withdrawn(id, record.JobStoreRestored))
	<-time.After(trialSoon)
	if past := t.player.w.Job(id).Past; len(past) != 1 {
		err = errors.Join(err, fmt.Errorf("what was found is told %d times: %+v", len(past), past))
	}
	err = errors.Join(err, t.sim.SetJobStatus(jobService, again, oscarsim.JobSucceeded), home.Sim.SetJobStatus(jobService, next, oscarsim.JobSucceeded))
	return errors.Join(err, t.becomes(id, record.JobSucceeded), t.started(3))
}

// foundForeign has somebody give Jobs of his names that only ours have. Nobody can tell them from those that the restore has
// lost: their jobs were accepted when their ids say so, if these say when, and that is over.
func (t *trial) foundForeign() error {
	defer t.decided()
	began := time.Now().Truncate(time.Millisecond) // as ids have it
	// Each with the time that it says; zero for none.
	foreign := map[string]time.Time{uuid.NewString(): {}, idOf(began.Add(24 * time.Hour)): {}, idOf(began.Add(-trialLate)): began.Add(-trialLate)}
	var err error
	for id := range foreign {
		name := record.JobName(jobService, id, 1)
		err = errors.Join(err, t.post(name, "somebody's event"), t.sim.SetJobStatus(jobService, name, oscarsim.JobRunning))
	}
	err = errors.Join(err, t.newHistoryElsewhere())
	for id, accepted := range foreign {
		if err = errors.Join(err, t.becomes(id, record.JobRunning)); err != nil {
			return err
		}
		if at := t.player.w.Job(id).AcceptedAt; !at.Equal(accepted) && (!accepted.IsZero() || at.Before(began) || at.After(time.Now())) {
			err = errors.Join(err, fmt.Errorf("job %s was accepted at %v", id, at))
		}
		err = errors.Join(err, t.sim.SetJobStatus(jobService, record.JobName(jobService, id, 1), oscarsim.JobSucceeded), t.becomes(id, record.JobSucceeded))
	}
	return err
}

// idOf is the id of a job that was accepted at a time.
func idOf(accepted time.Time) string {
	id := uuid.New()
	binary.BigEndian.PutUint64(id[:], uint64(accepted.UnixMilli())<<16|7<<12)
	return id.String()
}

// post makes a Job of a name at the OSCAR of the trial's cluster, as a user does who knows the token of the service.
func (t *trial) post(name, event string) error {
	service, _ := t.sim.Service(jobService)
	req, err := http.NewRequestWithContext(t.ctx, http.MethodPost, t.cluster.URL+"/job/"+jobService, strings.NewReader(event))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+service.Token)
	req.Header.Set("X-Delegated-Job-ID", name)
	resp, err := t.player.w.HTTP().Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		err = fmt.Errorf("OSCAR answers %s", resp.Status)
	}
	return err
}

// laterThan is the name of another Job of the trial's event.
func (t *trial) laterThan(name string) string {
	for _, j := range t.sim.Jobs(jobService) {
		if j.Event == "the event of "+t.name && j.Name != name {
			return j.Name
		}
	}
	return ""
}

// lostChangeVotes makes the backup while a change waits for the vote of the trial's cluster.
func (t *trial) lostChangeVotes() error {
	defer t.decided()
	if err := t.withoutLast(); err != nil {
		return err
	}
	t.cluster.Kill()
	outcome := make(chan error, 1)
	go func() {
		_, err := t.api.AddReplicas(t.ctx, t.name, t.added(), client.ChangeOptions{Wait: trialSoon})
		outcome <- err
	}()
	err := t.await("the change waits", func() bool { f, err := t.federation(); return err == nil && f.Change != nil })
	err = errors.Join(err, t.goesBack(restoreLive, func() error {
		t.cluster.Start()
		<-outcome //nolint:errcheck // it may be either
		return nil
	}))
	return errors.Join(err, t.await("the change is refused", func() bool {
		f, err := t.federation()
		return err == nil && f.Change == nil && f.Refused != nil
	}))
}

// aheadOfVote makes the backup while votes are waited for. In the history that is lost the service is created, and
// changed: that is a no, and a person decides about what stands.
func (t *trial) aheadOfVote() error {
	defer t.decided()
	outcome := make(chan error, 1)
	slow := t.slowEtcd()
	go func() { outcome <- t.create(trialLate, nil) }()
	err := t.await("votes are waited for", func() bool { return t.intent() == record.IntentPrepare })
	err = errors.Join(err, t.keeps(restoreLive, func() error {
		slow()
		return errors.Join(<-outcome, t.changed("second"))
	}))
	if phase := t.wholePhase(); phase != record.PhaseAborted {
		err = errors.Join(err, fmt.Errorf("the creation is %q", phase))
	}
	return err
}

// wholePhase is the phase of the service's federation.
func (t *trial) wholePhase() record.Phase {
	list, err := t.api.Federations(t.ctx)
	if err != nil {
		return ""
	}
	for _, f := range list {
		for _, r := range f.Replicas {
			if r.ServiceName == t.name {
				return record.Phase(f.Phase)
			}
		}
	}
	return ""
}

// changed changes the service, and waits until that is done.
func (t *trial) changed(script string) error {
	_, err := t.api.ChangeService(t.ctx, t.service(script, nil), client.ChangeOptions{Wait: trialLate})
	return errors.Join(err, t.is(script))
}

// reported waits until the syncer of the trial's cluster reports a phase of the replica.
func (t *trial) reported(phase record.Phase) error {
	return t.await(fmt.Sprintf("it is reported as %s", phase), func() bool {
		o := t.observed()
		return o != nil && o.Phase == phase
	})
}

// observed is the last report on the replica of the trial's cluster; nil without any.
func (t *trial) observed() *record.Observed {
	kv, err := t.player.w.Store.Get(t.ctx, record.ObservedServiceKey(t.cluster.ID, t.name))
	if err != nil {
		return nil
	}
	o, err := store.Decode[record.Observed](kv)
	if err != nil {
		return nil
	}
	return o
}

func (t *trial) aheadOfDeletion() error {
	defer t.decided()
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	err := t.keeps(restoreLive, func() error { return t.changed("second") })
	err = errors.Join(err, t.delete(), t.reported(record.PhaseHeld))
	if !t.everywhere(t.stands) {
		err = errors.Join(err, errors.New("what nobody has decided about was deleted"))
	}
	return err
}

// unmarked lets a user change the service in the history that is lost, as one does who does not know our annotations.
func (t *trial) unmarked() error {
	defer t.decided()
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	err := t.keeps(restoreLive, func() error {
		return errors.Join(t.changed("second"), t.changeDirectlyTo(func(fields map[string]any) { delete(fields, "annotations") }))
	})
	return errors.Join(err, t.reported(record.PhaseHeld))
}

// unmarkedRevoked lets a user do so, after a restore, on a cluster whose reports are forgotten then.
func (t *trial) unmarkedRevoked() error {
	defer t.decided()
	err := errors.Join(t.create(trialLate, nil), t.newHistoryElsewhere(), t.reported(record.PhaseReady), t.revoked())
	err = errors.Join(err, t.changeDirectlyTo(func(fields map[string]any) { delete(fields, "annotations") }), t.readmitted(nothing), t.reported(record.PhaseHeld))
	if t.script(t.sim) == t.service("first", nil).Script {
		err = errors.Join(err, errors.New("what nobody has decided about was changed"))
	}
	return errors.Join(err, t.resolveAll("store"), t.is("first"))
}

// unmarkedKept decides then for what the user has made of it.
func (t *trial) unmarkedKept() error {
	defer t.decided()
	err := errors.Join(t.create(trialLate, nil), t.newHistoryElsewhere(), t.reported(record.PhaseReady), t.revoked())
	err = errors.Join(err, t.changeDirectlyTo(func(fields map[string]any) { delete(fields, "annotations") }), t.readmitted(nothing), t.reported(record.PhaseHeld))
	theirs := t.script(t.sim)
	return errors.Join(err, t.resolveAll("cluster"), t.await("it is everywhere as the user has it", func() bool {
		return t.everywhere(func(sim *oscarsim.Sim) bool { return t.script(sim) == theirs })
	}))
}

// resolveAll decides about everything that differs since a restore, for one side.
func (t *trial) resolveAll(keep string) error {
	var last error
	err := t.await("nothing differs", func() bool {
		found, err := t.api.Differences(t.ctx)
		if last = err; err != nil {
			return false
		}
		for _, c := range found.Clusters {
			if !c.Compared {
				return false
			}
		}
		for _, d := range found.Differences {
			if !d.Resolving {
				_, err := t.api.Resolve(t.ctx, v1.Resolve{ClusterID: d.ClusterID, ServiceName: d.ServiceName, Keep: keep})
				last = errors.Join(last, err)
			}
		}
		return len(found.Differences) == 0
	})
	if err != nil {
		err = errors.Join(err, last)
	}
	return err
}

func (t *trial) deletionUndone() error {
	defer t.decided()
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	err := t.keeps(restoreLive, func() error {
		_, err := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{Wait: trialLate})
		return err
	})
	return errors.Join(err, t.resolveAll("store"), t.await("it is everywhere again", func() bool { return t.everywhere(t.stands) }))
}

// pausedUndone decides about a service that a restore has paused again: no more is to be decided then, and it is
// made again when the pause ends.
func (t *trial) pausedUndone() error {
	defer t.decided()
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	_, err := t.api.Pause(t.ctx, t.name, "", true)
	err = errors.Join(err, t.keeps(restoreLive, func() error {
		_, resumed := t.api.Pause(t.ctx, t.name, "", false)
		_, err := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{Wait: trialLate})
		return errors.Join(resumed, err)
	}))
	err = errors.Join(err, t.resolveAll("store"), t.phase(record.PhasePending))
	if !t.everywhere(t.gone) {
		err = errors.Join(err, errors.New("it was made while it was paused"))
	}
	_, resumed := t.api.Pause(t.ctx, t.name, "", false)
	return errors.Join(err, resumed, t.await("it is everywhere again", func() bool { return t.everywhere(t.stands) }))
}

func (t *trial) pausedChange() error {
	defer t.decided()
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	_, err := t.api.Pause(t.ctx, t.name, "", true)
	_, changed := t.api.ChangeService(t.ctx, t.service("second", nil), client.ChangeOptions{Async: true})
	err = errors.Join(err, changed, t.keeps(restoreLive, func() error { return nil }), t.resolveAll("store"), t.phase(record.PhasePending))
	_, resumed := t.api.Pause(t.ctx, t.name, "", false)
	return errors.Join(err, resumed, t.is("second"))
}

func (t *trial) creationTakenUp() error {
	defer t.decided()
	err := t.keeps(restoreLive, func() error { return t.create(trialLate, nil) })
	err = errors.Join(err, t.resolveAll("cluster"))
	_, read := t.api.Service(t.ctx, t.name, "")
	if !t.everywhere(t.stands) {
		err = errors.Join(err, errors.New("what was taken up is gone"))
	}
	return errors.Join(err, read)
}
