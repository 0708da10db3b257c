package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// inventory is, once in each epoch after the first, a list of all Jobs with our names: those
// that no assignment asks for are reported as found. A store that was restored may have
// forgotten that they were posted. What an earlier process has posted last, without an
// answer, may appear until LateWindow has passed: until then it is repeated, and only
// then the epoch is said to be known (ObservedCluster.JobsEpoch).
func (j *Jobs) inventory(ctx context.Context) {
	final := j.session.Started.Add(j.cfg.LateWindow)
	var told told
	for ctx.Err() == nil {
		pause := j.cfg.Resync
		switch epoch, due := j.inventoryDue(); {
		case !due:
		default:
			began := j.session.Now()
			if told.epoch != epoch {
				told.epoch, told.states = epoch, map[string]record.JobState{}
			}
			err := j.takeInventory(ctx, told, !began.Before(final))
			j.session.LoseIfOver(err)
			switch {
			case err != nil && ctx.Err() == nil:
				j.session.Log.Warn("jobs are not all known yet after the restore of etcd", "epoch", epoch, "error", err)
			case began.Before(final):
				pause = min(pause, final.Sub(j.session.Now()))
			}
		}
		select {
		case <-ctx.Done():
		case <-j.epochs:
		case <-time.After(max(pause, time.Millisecond)):
		}
	}
}

// told are the states that were reported of the Jobs found in an epoch, by their names. The control plane takes each
// report over and deletes it: the same is not told again.
type told struct {
	epoch  string
	states map[string]record.JobState
}

// inventoryDue says whether the Jobs of the present epoch are not all known.
func (j *Jobs) inventoryDue() (epoch string, due bool) {
	view := j.session.Mirror.Snapshot()
	s, err := j.view(view)
	if err != nil || s.Restored || s.Epoch == "" {
		return "", false
	}
	kv, ok := view.KV(record.ObservedClusterKey(j.session.ID))
	if !ok {
		return s.Epoch, true
	}
	known, err := store.Decode[record.ObservedCluster](kv)
	return s.Epoch, err != nil || known.JobsEpoch != s.Epoch
}

// takeInventory reports what is found in all services that are or were ours. One
// that is half-created, whose jobs only Kubernetes could list, does not keep all federations
// of the cluster waiting: it stays so until a person looks after it, and is named in
// ObservedCluster.Unlisted. What it has is not told.
func (j *Jobs) takeInventory(ctx context.Context, told told, final bool) error {
	epoch := told.epoch
	list, _, err := j.deps.Answers.Lists.Get(ctx, j.session.Now())
	if err != nil {
		return err
	}
	listed, unlisted := map[string]bool{}, map[string]record.Unlisted{}
	for _, name := range slices.Sorted(maps.Keys(list.Services)) {
		service := list.Services[name]
		desired := j.session.Desired(name)
		if service.Annotations[oscar.AnnotationUID] == "" && (desired == nil || record.Mark(service.Token) != desired.Mark) {
			continue // never ours
		}
		jobs, err := j.lister.of(ctx, name)
		if errors.Is(err, errHalf) {
			j.session.Log.Warn("jobs of a half-created service are not known after the restore of etcd", "service", name, "error", err)
			unlisted[name] = record.Unlisted{ServiceName: name, Reason: record.ReasonCreateFailed, Message: halfMessage}
			continue
		}
		if err != nil {
			return err
		}
		for name := range jobs {
			listed[name] = true
		}
		news := j.foundAmong(j.session.Mirror.Snapshot(), told, name, jobs, j.session.Now())
		if err := j.reportFound(ctx, epoch, news); err != nil {
			return err
		}
		for _, f := range news {
			told.states[record.JobName(name, f.job, f.number)] = f.report.State
		}
	}
	if !final || j.untold(j.session.Mirror.Snapshot(), epoch, listed) {
		return nil
	}
	if err := j.reportFound(ctx, epoch, j.foundBefore(j.session.Mirror.Snapshot(), epoch, listed, unlisted, j.session.Now())); err != nil {
		return err
	}
	return j.sayJobsEpoch(ctx, epoch, unlisted)
}

// halfMessage says of a half-created service why its Jobs are not known.
const halfMessage = "it is half-created: OSCAR lists it and cannot read it; what Jobs it has was not found out after the restore of etcd"

// found is a Job of our name.
type found struct {
	job    string
	number int
	report record.JobReport
}

// foundAmong are the Jobs of a service that have a name of ours and no assignment, and are news.
func (j *Jobs) foundAmong(view *store.MirrorView, told told, service string, jobs map[string]listedJob, now time.Time) []found {
	var out []found
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		job, number, ours := record.OfJobName(name)
		if !ours || record.JobName(service, job, number) != name {
			continue
		}
		if _, asked := view.KV(record.AssignmentKey(j.session.ID, job, number)); asked {
			continue // it is reported like any other
		}
		if kv, reported := view.KV(record.JobReportKey(j.session.ID, job, number)); reported && !foundEarlier(kv, told.epoch) {
			continue
		}
		state := listedState(jobs[name].Status)
		if state == "" {
			state = record.JobSubmitted
		}
		if told.states[name] == state {
			continue
		}
		r := record.JobReport{V: record.Version, State: state, Session: j.session.Lease.CreateRevision(), LastTransitionTime: record.At(now),
			Found: true, Service: service, Epoch: told.epoch, Reason: record.JobStoreRestored}
		if at := jobs[name].Started; !at.IsZero() {
			r.StartedAt = new(record.At(at))
		}
		if at := jobs[name].Finished; !at.IsZero() {
			r.EndedAt = new(record.At(at))
		}
		out = append(out, found{job: job, number: number, report: r})
	}
	return out
}

// untold says whether an assignment of an epoch that is over asks for a Job that is listed and not reported yet.
// Such an assignment is taken back as soon as the epoch is said to be known.
func (j *Jobs) untold(view *store.MirrorView, epoch string, listed map[string]bool) bool {
	for kv := range view.Prefix(record.AssignmentsPrefix(j.session.ID)) {
		a, err := store.Decode[record.Assignment](kv)
		if err != nil || a.Epoch == epoch || !listed[a.Name] {
			continue
		}
		report, _ := view.KV(record.JobReportKey(j.session.ID, a.Job, a.Attempt))
		if r, err := store.Decode[record.JobReport](report); err != nil || r.State == record.JobClaimed {
			return true
		}
	}
	return false
}

// foundEarlier says whether a report tells of an attempt that was found in another epoch
// than this one. It counts no more: it is told anew.
func foundEarlier(kv store.KV, epoch string) bool {
	r, err := store.Decode[record.JobReport](kv)
	return err == nil && r.Found && r.Epoch != epoch
}

// foundBefore are the attempts that were found in another epoch, that still no assignment asks
// for, and that are not listed any more: those that had not ended have vanished. Of those
// of a service that could not be listed nothing is said.
func (j *Jobs) foundBefore(view *store.MirrorView, epoch string, listed map[string]bool, unlisted map[string]record.Unlisted, now time.Time) []found {
	var out []found
	for kv := range view.Prefix(record.JobReportsPrefix(j.session.ID)) {
		ref := record.ParseKey(kv.Key)
		number := ref.AttemptOf()
		r, err := store.Decode[record.JobReport](kv)
		if err != nil || !r.Found || r.Epoch == epoch || listed[record.JobName(r.Service, ref.Name, number)] {
			continue
		}
		if _, unknown := unlisted[r.Service]; unknown {
			continue
		}
		if _, asked := view.KV(record.AssignmentKey(j.session.ID, ref.Name, number)); asked {
			continue
		}
		next := *r
		next.Session, next.Epoch = j.session.Lease.CreateRevision(), epoch
		if !next.State.Ended() {
			next.State, next.LastTransitionTime = record.JobVanished, record.At(now)
		}
		out = append(out, found{job: ref.Name, number: number, report: next})
	}
	return out
}

func (j *Jobs) reportFound(ctx context.Context, epoch string, all []found) error {
	for part := range slices.Chunk(all, maxJobBatch/2) {
		keys := []string{j.session.Lease.Key(), record.DesiredClusterKey(j.session.ID)}
		for _, f := range part {
			keys = append(keys, record.AssignmentKey(j.session.ID, f.job, f.number), record.JobReportKey(j.session.ID, f.job, f.number))
		}
		_, err := j.session.Store.Update(ctx, store.Update{Keys: keys, Build: func(read store.View, tx *store.Txn) error {
			if err := j.inEpoch(read, tx, epoch); err != nil {
				return err
			}
			for _, f := range part {
				assignment, report := record.AssignmentKey(j.session.ID, f.job, f.number), record.JobReportKey(j.session.ID, f.job, f.number)
				_, asked := read.KV(assignment)
				kv, reported := read.KV(report)
				if asked || reported && !foundEarlier(kv, epoch) {
					continue
				}
				tx.Expect(assignment)
				tx.Expect(report)
				tx.Put(report, f.report)
			}
			return nil
		}})
		if err != nil {
			return err
		}
		j.session.Log.Warn("jobs were found that the restored store does not know at this place", "service", part[0].report.Service, "jobs", len(part))
	}
	return nil
}

// inEpoch expects the session and the epoch.
func (j *Jobs) inEpoch(read store.View, tx *store.Txn, epoch string) error {
	clusterKey := record.DesiredClusterKey(j.session.ID)
	c, err := j.session.Serves(read.KV(clusterKey))
	if err != nil {
		return err
	}
	if c.Word() != epoch {
		return fmt.Errorf("%w: another epoch has begun", session.ErrStale)
	}
	tx.ExpectSession(j.session.Lease)
	tx.Expect(clusterKey)
	return nil
}

// maxUnlisted bounds the record: the rest is only in the log.
const maxUnlisted = 100

// sayJobsEpoch says that all Jobs were listed and reported in an epoch, but for those of
// some services.
func (j *Jobs) sayJobsEpoch(ctx context.Context, epoch string, unlisted map[string]record.Unlisted) error {
	key := record.ObservedClusterKey(j.session.ID)
	_, err := j.session.Store.Update(ctx, store.Update{
		Keys: []string{j.session.Lease.Key(), record.DesiredClusterKey(j.session.ID), key},
		Build: func(read store.View, tx *store.Txn) error {
			if err := j.inEpoch(read, tx, epoch); err != nil {
				return err
			}
			kv, ok := read.KV(key)
			if !ok {
				return errors.New("the cluster was not reported yet")
			}
			c, err := store.Decode[record.ObservedCluster](kv)
			if err != nil {
				return err
			}
			c.JobsEpoch, c.Unlisted = epoch, nil
			for _, name := range slices.Sorted(maps.Keys(unlisted)) {
				if len(c.Unlisted) < maxUnlisted {
					c.Unlisted = append(c.Unlisted, unlisted[name])
				}
			}
			tx.Expect(key)
			tx.Put(key, c)
			return nil
		},
	})
	return err
}
