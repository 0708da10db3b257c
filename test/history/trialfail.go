package history

import (
	"context"
	"encoding/json"
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
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// serviceTrials are those of services whose OSCAR fails, that are paused, or that somebody has changed or taken.
func serviceTrials() map[string]func(*trial) error {
	return map[string]func(*trial) error{
		"a service that OSCAR cannot read is told, and deleted when it can":         (*trial).wedged,
		"a service that OSCAR does not delete is deleted when it does":              (*trial).deleteFails,
		"a deletion waits while the jobs of the service cannot be counted":          (*trial).uncounted,
		"a service that OSCAR does not change is changed when it does":              (*trial).changeFails,
		"a service that no repair mends is told":                                    (*trial).unfixable,
		"a paused service is left as it is, and repaired when the pause ends":       (*trial).pausedDrift,
		"a service that vanishes is reported, where that is asked for":              (*trial).reportVanished,
		"a service loses its bucket while it is changed, and gets it again":         (*trial).bucketInChange,
		"a creation that OSCAR does half is rolled back":                            (*trial).halfMade,
		"a creation whose OSCAR breaks off is over soon after its deadline":         (*trial).breaksOff,
		"a creation whose OSCAR is away is refused":                                 (*trial).oscarAway,
		"a creation whose OSCAR takes no creates is over at its deadline":           (*trial).closed,
		"a creation whose syncer is silent is refused for what it has said before":  (*trial).silentAway,
		"a deletion that waits for a cluster can be hurried":                        (*trial).hurried,
		"a volume that goes with its service keeps the service":                     (*trial).perishes,
		"a creation whose OSCAR goes away is over soon after its deadline":          (*trial).oscarGoes,
		"a service of an earlier life is left alone until its place is free":        (*trial).otherLife,
		"a service in the place of a creation is left alone":                        (*trial).placeTaken,
		"a service in the place of ours is left alone":                              (*trial).replacedByForeign,
		"a service that somebody makes again with our annotations is left alone":    (*trial).copied,
		"a stopped service is changed, and is stopped after that":                   (*trial).changeStopped,
		"a service that somebody starts is stopped again":                           (*trial).startedDirectly,
		"a service is stopped when its OSCAR does so, and when its pause ends":      (*trial).stopFails,
		"a service that fewer may see gets another token":                           (*trial).narrowed,
		"a creation with best effort loses the member that it has not made":         (*trial).effortRemoved,
		"a creation with best effort is deleted with the member that it lacks":      (*trial).effortDeleted,
		"a service whose images are fetched first is created":                       (*trial).prefetched,
		"a deletion with its data waits for the OSCAR that does not delete buckets": (*trial).bucketsStay,
		"an exposed service is left as it is by an OSCAR that would empty it":       (*trial).emptied,
		"a service that loses its bucket in a change waits for the end of a pause":  (*trial).bucketInPause,
		"a service that somebody deletes in a change is made again after that":      (*trial).deletedInChange,
	}
}

// fails has the OSCAR of the trial's cluster answer an operation with an error.
func (t *trial) fails(op oscarsim.Op) error {
	return t.sim.SetFault(oscarsim.Fault{Op: op, Fault: oscarsim.Fault500})
}

// phase waits until the owner sees the replica on the trial's cluster in a phase.
func (t *trial) phase(phase record.Phase) error {
	if err := t.await(fmt.Sprintf("it is %s", phase), func() bool { return t.seenByOwner() == phase }); err != nil {
		return fmt.Errorf("%w; it is %q", err, t.seenByOwner())
	}
	return nil
}

// delete orders the deletion, and waits for nothing.
func (t *trial) delete() error {
	_, err := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{})
	return err
}

// nowhere waits until the service is nowhere.
func (t *trial) nowhere() error {
	return t.await("it is nowhere", func() bool { return t.everywhere(t.gone) })
}

func (t *trial) change(script string) error {
	_, err := t.api.ChangeService(t.ctx, t.service(script, nil), client.ChangeOptions{Async: true})
	return err
}

// is waits until the script of the service is so everywhere.
func (t *trial) is(script string) error {
	wanted := t.service(script, nil).Script
	return t.await("its script is "+script, func() bool {
		return t.everywhere(func(sim *oscarsim.Sim) bool { return t.script(sim) == wanted })
	})
}

func (t *trial) wedged() error {
	if err := t.create(trialLate, nil); err != nil {
		return err
	}
	t.sim.HalfCreate(t.name)
	err := errors.Join(t.change("second"), t.phase(record.PhaseWedged), t.delete())
	<-time.After(trialLate)
	if t.gone(t.sim) {
		err = errors.Join(err, errors.New("OSCAR cannot delete it, and it is gone"))
	}
	return errors.Join(err, t.sim.PutPodTemplate(t.name), t.nowhere())
}

// deleteFails has OSCAR refuse the PUT that takes the storage out, and then the DELETE, and pauses the cluster.
func (t *trial) deleteFails() error {
	t.cluster = t.player.w.Cluster(t.player.users.clusters[0])
	t.sim = t.cluster.Sim
	err := errors.Join(t.create(trialLate, nil), t.fails(oscarsim.OpUpdate), t.delete())
	<-time.After(trialSoon)
	t.sim.ClearFaults()
	err = errors.Join(err, t.fails(oscarsim.OpDelete))
	<-time.After(trialSoon)
	err = errors.Join(err, t.setCluster(record.ClusterPaused))
	t.sim.ClearFaults()
	<-time.After(trialSoon)
	if t.gone(t.sim) {
		err = errors.Join(err, errors.New("it was deleted on a cluster that is paused"))
	}
	return errors.Join(err, t.setCluster(record.ClusterActive), t.nowhere())
}

// uncounted has OSCAR not say which jobs the service has: its DELETE would end them.
func (t *trial) uncounted() error {
	err := errors.Join(t.create(trialLate, nil), t.fails(oscarsim.OpLogs), t.delete(),
		t.await("it is told", func() bool { return t.reason() == record.ReasonDeleteFailed }))
	if t.gone(t.sim) {
		err = errors.Join(err, errors.New("it was deleted with the jobs that it may have had"))
	}
	t.sim.ClearFaults()
	return errors.Join(err, t.nowhere())
}

// changeFails has OSCAR refuse a change, and then a repair.
func (t *trial) changeFails() error {
	err := errors.Join(t.create(trialLate, nil), t.fails(oscarsim.OpUpdate), t.change("second"))
	<-time.After(trialSoon)
	t.sim.ClearFaults()
	err = errors.Join(err, t.is("second"), t.changeDirectly(), t.fails(oscarsim.OpUpdate))
	<-time.After(trialLate)
	t.sim.ClearFaults()
	return errors.Join(err, t.is("second"))
}

// unchanging is an OSCAR that says yes to every change, and makes none.
type unchanging struct{ syncer.OSCAR }

// Update implements syncer.OSCAR.
func (unchanging) Update(context.Context, string, []byte, manager.Bearer, time.Duration) error {
	return nil
}

func (t *trial) unfixable() error {
	err := t.create(trialLate, nil)
	t.cluster.Kill()
	t.cluster.Start(func(c *syncer.Config) { c.OSCAR = unchanging{c.OSCAR} })
	<-time.After(sessionOver)
	err = errors.Join(err, t.changeDirectly(), t.await("it is told", func() bool { return t.reason() == record.ReasonDriftUnfixable }))
	t.cluster.Kill()
	t.cluster.Start()
	return errors.Join(err, t.is("first"))
}

// reason is what the API says of the replica on the trial's cluster.
func (t *trial) reason() record.Reason {
	list, err := t.api.Federations(t.ctx)
	if err != nil {
		return ""
	}
	for _, f := range list {
		for _, r := range f.Replicas {
			if r.ServiceName == t.name && r.ClusterID == t.cluster.ID && r.Status != nil {
				return record.Reason(r.Status.Reason)
			}
		}
	}
	return ""
}

// pausedDrift changes the service on one cluster, and deletes it on another one, while it is paused.
func (t *trial) pausedDrift() error {
	err := t.create(trialLate, nil)
	_, paused := t.api.Pause(t.ctx, t.name, "", true)
	other := t.player.w.Cluster(clusterID(t.player.plan.Shape.Clusters - 1)).Sim
	err = errors.Join(err, paused, t.changeDirectly())
	other.RemoveService(t.name)
	<-time.After(trialLate)
	if t.script(t.sim) == t.service("first", nil).Script || t.stands(other) {
		err = errors.Join(err, errors.New("it is repaired while it is paused"))
	}
	_, resumed := t.api.Pause(t.ctx, t.name, "", false)
	return errors.Join(err, resumed, t.is("first"))
}

func (t *trial) reportVanished() error {
	err := t.create(trialLate, func(f *oscar.Federation) { f.Drift = oscar.DriftReport })
	t.sim.RemoveService(t.name)
	err = errors.Join(err, t.phase(record.PhaseDrifted))
	<-time.After(trialLate)
	if t.stands(t.sim) {
		err = errors.Join(err, errors.New("it was made again"))
	}
	return errors.Join(err, t.delete(), t.nowhere())
}

// bucketInChange deletes the bucket when OSCAR is asked for the change.
func (t *trial) bucketInChange() error {
	home := t.player.w.Cluster(t.player.users.clusters[0]).Sim
	err := t.create(trialLate, nil)
	changed := home.Next(oscarsim.OpUpdate)
	err = errors.Join(err, t.change("second"))
	<-changed
	for range 10 {
		home.RemoveBucket(t.name)
		<-time.After(wireDelay)
	}
	return errors.Join(err, t.is("second"), t.await("its bucket is back", func() bool { _, has := home.Bucket(t.name); return has }))
}

// halfMade has the coordinator's OSCAR end in the middle of the creation: the service has no bucket.
func (t *trial) halfMade() error {
	home := t.player.w.Cluster(t.player.users.clusters[0]).Sim
	if err := home.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultCrash, Count: 1}); err != nil {
		return err
	}
	err := refused(t.create(trialLate, nil), v1.CodeReplicaFailed)
	home.ClearFaults()
	return errors.Join(err, t.nowhere())
}

func (t *trial) breaksOff() error {
	if err := t.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultRefuse}); err != nil {
		return err
	}
	return refused(t.create(trialLate, nil), v1.CodeReplicaFailed)
}

// oscarAway asks for a creation as soon as OSCAR is away, and again when that is known.
func (t *trial) oscarAway() error {
	t.cluster.OscarDies()
	defer t.cluster.OscarLives()
	err := refused(t.create(trialSoon, nil), v1.CodeUnavailable)
	<-time.After(trialLate)
	again := refused(t.create(trialSoon, nil), v1.CodeUnavailable)
	_, removed := t.api.RemoveCluster(t.ctx, t.cluster.ID, client.RemoveClusterOptions{})
	return errors.Join(err, again, refused(removed, v1.CodeFailedPrecondition))
}

// silentAway freezes a syncer that has said that its OSCAR is away.
func (t *trial) silentAway() error {
	t.cluster.OscarDies()
	defer t.cluster.OscarLives()
	<-time.After(trialLate)
	host := t.player.net.Host(t.cluster.Host())
	host.Freeze()
	defer host.Thaw()
	return errors.Join(refused(t.create(trialSoon, nil), v1.CodeUnavailable), t.refusedFor(record.ReasonOscarUnreachable))
}

// hurried deletes a service while a job runs on a cluster that goes away: when it comes back the deletion is to end jobs.
func (t *trial) hurried() error {
	err := t.create(trialLate, nil)
	back := t.only()
	id, sent := t.send("one")
	_, kept := keep(t.sim, t.name, "one")
	err = errors.Join(err, sent, kept, t.becomes(id, record.JobRunning))
	back()
	err = errors.Join(err, t.delete())
	<-time.After(trialSoon)
	t.cluster.Kill()
	<-time.After(sessionOver)
	err = errors.Join(err, t.await("the others have forgotten it", func() bool {
		_, err := t.player.w.Store.Get(t.ctx, record.DesiredServiceKey(t.player.users.clusters[0], t.name))
		return errors.Is(err, store.ErrNotFound)
	}))
	_, hurries := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{Jobs: "cancel"})
	if t.gone(t.sim) || t.state(id) != record.JobRunning {
		err = errors.Join(err, fmt.Errorf("the cluster is away, and the job is %s", t.state(id)))
	}
	t.cluster.Start()
	return errors.Join(err, hurries, t.becomes(id, record.JobCancelled), t.nowhere())
}

// perishes has somebody make a service again so that OSCAR would delete its volume with it.
func (t *trial) perishes() error {
	t.cluster = t.player.w.Cluster(t.player.users.clusters[0])
	t.sim = t.cluster.Sim
	s := t.alone(t.name, "first")
	s.Volume = &oscar.Volume{Size: "1Gi", MountPath: "/data"}
	_, err := t.api.CreateService(t.ctx, s, client.CreateOptions{Wait: trialLate})
	was, _ := t.sim.Service(t.name)
	again := changed(was, func(fields map[string]any) {
		volume, _ := fields["volume"].(map[string]any)
		volume["lifecycle_policy"] = "delete"
	})
	t.sim.RemoveService(t.name)
	_, _, removed := t.player.w.TryDirectly(t.ctx, http.MethodDelete, t.cluster.URL+"/system/volumes/"+t.name, nil)
	err = errors.Join(err, removed, t.sim.PutService(again), t.delete())
	<-time.After(trialLate)
	_, has := t.sim.Volume(oscar.OwnerAdmin, t.name)
	if t.gone(t.sim) || !has {
		err = errors.Join(err, errors.New("the volume went with its service"))
	}
	_, deleted := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{Data: "delete"})
	return errors.Join(err, deleted, t.await("both are gone", func() bool {
		_, has := t.sim.Volume(oscar.OwnerAdmin, t.name)
		return t.gone(t.sim) && !has
	}))
}

// oscarGoes ends OSCAR as soon as the service is to be made there.
func (t *trial) oscarGoes() error {
	outcome := make(chan error, 1)
	slow := t.slowEtcd()
	go func() { outcome <- t.create(trialLate, nil) }()
	err := t.await("it is to be made", func() bool { return t.intent() == record.IntentApply })
	t.cluster.OscarDies()
	slow()
	err = errors.Join(err, refused(<-outcome, v1.CodeReplicaFailed))
	t.cluster.OscarLives()
	return errors.Join(err, t.nowhere())
}

// otherLife puts the service of an earlier life, which was deleted, into the place of the present one.
func (t *trial) otherLife() error {
	err := t.create(trialLate, nil)
	earlier, _ := t.sim.Service(t.name)
	err = errors.Join(err, t.delete(), t.nowhere(), t.create(trialLate, nil))
	t.sim.RemoveService(t.name)
	err = errors.Join(err, t.sim.PutService(string(earlier.JSON)), t.phase(record.PhaseHeld))
	<-time.After(trialLate)
	if t.gone(t.sim) {
		err = errors.Join(err, errors.New("the service of an earlier life was deleted"))
	}
	return errors.Join(err, t.delete(), t.nowhere())
}

// copied has somebody delete the service and make it again with our annotations.
func (t *trial) copied() error {
	return t.replaced(record.ReasonMarkLost, func(was oscarsim.ServiceView) (string, error) {
		var fields map[string]any
		if err := json.Unmarshal(was.JSON, &fields); err != nil {
			return "", err
		}
		fields["token"] = strings.Repeat("a", len(was.Token))
		body, err := json.Marshal(fields)
		return string(body), err
	})
}

// replacedByForeign has somebody put another service into its place.
func (t *trial) replacedByForeign() error {
	return t.replaced(record.ReasonNameTaken, func(oscarsim.ServiceView) (string, error) { return foreignDefinition(t.name, t.number), nil })
}

// replaced puts another service into the place of ours, which is made again once that is gone.
func (t *trial) replaced(reason record.Reason, other func(was oscarsim.ServiceView) (string, error)) error {
	err := t.create(trialLate, nil)
	was, _ := t.sim.Service(t.name)
	body, made := other(was)
	t.sim.RemoveService(t.name)
	err = errors.Join(err, made, t.sim.PutService(body))
	before := lookAt(t.sim, t.name)
	err = errors.Join(err, t.phase(record.PhaseHeld))
	if now := t.reason(); now != reason {
		err = errors.Join(err, fmt.Errorf("it is held for %s", now))
	}
	<-time.After(trialLate)
	if after := lookAt(t.sim, t.name); !after.Stands || string(after.Service.JSON) != string(before.Service.JSON) {
		err = errors.Join(err, errors.New("somebody's service was touched"))
	}
	t.sim.RemoveService(t.name)
	return errors.Join(err, t.phase(record.PhaseReady), t.is("first"))
}

// placeTaken makes somebody's service between the vote for a creation and the creation.
func (t *trial) placeTaken() error {
	outcome := make(chan error, 1)
	slow := t.slowEtcd()
	go func() { outcome <- t.create(trialLate, nil) }()
	err := t.await("it is to be made", func() bool { return t.intent() == record.IntentApply })
	err = errors.Join(err, t.sim.PutService(foreignDefinition(t.name, t.number)))
	before := lookAt(t.sim, t.name)
	slow()
	err = errors.Join(err, refused(<-outcome, v1.CodeReplicaFailed))
	if after := lookAt(t.sim, t.name); !after.Stands || string(after.Service.JSON) != string(before.Service.JSON) {
		err = errors.Join(err, errors.New("somebody's service was touched"))
	}
	t.sim.RemoveService(t.name)
	return err
}

// narrowed lets fewer and fewer users see the service.
func (t *trial) narrowed() error {
	seen := func(visibility string, users ...string) *oscar.Service {
		s := t.alone(t.name, visibility)
		s.Visibility, s.AllowedUsers = visibility, users
		return s
	}
	one, other := personSubject(1), personSubject(2)
	_, err := t.api.CreateService(t.ctx, seen(oscar.VisibilityPublic), client.CreateOptions{Wait: trialLate})
	for _, next := range []*oscar.Service{
		seen(oscar.VisibilityRestricted, one, other), seen(oscar.VisibilityRestricted, one), seen(oscar.VisibilityPrivate), seen(oscar.VisibilityPublic),
	} {
		before, known := t.federation()
		_, changed := t.api.ChangeService(t.ctx, next, client.ChangeOptions{Wait: trialSoon})
		after, read := t.federation()
		if err = errors.Join(err, known, changed, read); err != nil {
			return err
		}
		if rotated := after.TokenRotation > before.TokenRotation; rotated != (next.Visibility != oscar.VisibilityPublic) {
			err = fmt.Errorf("it is %s, and its token was rotated: %v", next.Visibility, rotated)
		}
	}
	return err
}

// effort creates the service with best effort while the trial's cluster is away.
func (t *trial) effort() error {
	t.cluster.Kill()
	return t.create(trialLate, func(f *oscar.Federation) { f.Deployment = oscar.DeploymentBestEffort })
}

func (t *trial) effortRemoved() error {
	err := t.effort()
	_, removed := t.api.RemoveReplicas(t.ctx, t.name, t.added(), client.ChangeOptions{Wait: trialSoon})
	t.cluster.Start()
	<-time.After(trialSoon)
	if t.stands(t.sim) {
		err = errors.Join(err, errors.New("it is made where it was removed"))
	}
	return errors.Join(err, removed)
}

func (t *trial) effortDeleted() error {
	err := errors.Join(t.effort(), t.delete())
	t.cluster.Start()
	<-time.After(trialSoon)
	return errors.Join(err, t.nowhere())
}

func (t *trial) prefetched() error {
	s := t.service("first", nil)
	s.ImagePrefetch = true
	_, err := t.api.CreateService(t.ctx, s, client.CreateOptions{Wait: trialLate})
	return err
}

func (t *trial) bucketsStay() error {
	t.cluster = t.player.w.Cluster(t.player.users.clusters[0])
	t.sim = t.cluster.Sim
	err := errors.Join(t.create(trialLate, nil), t.fails(oscarsim.OpBucketDelete))
	_, deleted := t.api.DeleteService(t.ctx, t.name, client.DeleteOptions{Data: "delete"})
	<-time.After(trialSoon)
	err = errors.Join(err, deleted, t.setCluster(record.ClusterPaused))
	t.sim.ClearFaults()
	<-time.After(trialSoon)
	if _, has := t.sim.Bucket(t.name); !has {
		err = errors.Join(err, errors.New("its bucket was deleted on a cluster that is paused"))
	}
	return errors.Join(err, t.setCluster(record.ClusterActive), t.await("its bucket is gone", func() bool { _, has := t.sim.Bucket(t.name); return !has && t.gone(t.sim) }))
}
