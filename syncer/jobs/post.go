package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/originstorage"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// openedJob is what is posted. It is in memory only while the attempt has a slot.
type openedJob struct {
	submission manager.Submission
	// owner of the service, and what no report may hold.
	owner   string
	secrets []string
	// uid is the life of the service, and place the storage that its jobs use.
	uid     string
	storage *definition.Storage
	keys    originstorage.KeysOf
	// byOwner says that the token of the submission is the owner's access token.
	byOwner bool
}

// unfitError says that an attempt cannot be made here, and that OSCAR need not be asked:
// its event will never be readable, or there is no token to post it with.
type unfitError struct {
	reason  record.JobReason
	message string
}

func (e *unfitError) Error() string { return e.message }

func lostEvent(message string) *unfitError { return &unfitError{record.JobEventLost, message} }

// openJob reads what is to be posted, before anything says that OSCAR is asked.
func (d *Jobs) openJob(ctx context.Context, a *attempt, assignment record.Assignment) {
	opened, err := d.read(ctx, a, assignment)
	d.opened(ctx, a, opened, err)
}

func (d *Jobs) opened(ctx context.Context, a *attempt, opened *openedJob, err error) {
	if unfit, ok := errors.AsType[*unfitError](err); ok {
		d.finished(a, func(m *memory) { m.unfit = unfit })
		return
	}
	if err != nil {
		if none, ok := errors.AsType[*ownertoken.NoTokenError](err); ctx.Err() == nil && (!ok || !none.Pending) {
			d.session.Log.Warn("a job cannot be prepared; it is tried again", "job", a.job, "attempt", a.number, "service", a.service, "error", err)
		}
		d.postpone(a)
		return
	}
	d.mu.Lock()
	a.opened = opened
	d.mu.Unlock()
	d.finished(a, func(*memory) {})
}

// postpone gives the slot back and decides anew after a pause.
func (d *Jobs) postpone(a *attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.memory.busy = false
	d.giveSlot(a)
	d.due.AddAfter(a.key, d.cfg.RetryPause)
}

// read opens the event of an attempt, and the token of its service.
func (d *Jobs) read(ctx context.Context, a *attempt, assignment record.Assignment) (*openedJob, error) {
	desired := d.replicaIn(d.session.Mirror.Snapshot(), a.service).desired
	if desired == nil || desired.UID != assignment.UID {
		return nil, errNotOurs
	}
	def, err := d.deps.Definitions.Open(ctx, a.service, desired)
	if err != nil {
		return nil, err
	}
	if def == nil {
		return nil, errNotOurs
	}
	key := record.AssignedEventKey(d.session.ID, a.job, a.number)
	kv, heard := d.deps.Events.take(key)
	if !heard {
		kv, err = d.session.Store.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return nil, lostEvent("its event is not in the store any more")
		}
		if err != nil {
			return nil, err
		}
	}
	event, err := store.Decode[record.Event](kv)
	if err != nil {
		return nil, lostEvent("the record of its event cannot be read")
	}
	want := seal.Header{Purpose: record.PurposeEvent, Cluster: d.session.ID, UID: a.job, Generation: int64(a.number)}
	body, err := d.session.Identity.Open(event.Sealed, want, d.session.Now())
	if err != nil {
		d.session.Log.Error("event cannot be opened", "job", a.job, "attempt", a.number, "error", err)
		return nil, lostEvent("its event is sealed to another key or for another use; if the syncer's identity file was replaced, replay the job")
	}
	from := def.Service.Annotations[oscar.AnnotationOriginCluster]
	if from == "" {
		from = d.session.ID
	}
	opened := &openedJob{
		submission: manager.Submission{
			Service: a.service, Token: manager.Bearer(def.Service.Token), Name: assignment.Name, From: from, Event: body,
		},
		owner: desired.Owner, uid: desired.UID, storage: def.Storage,
		secrets: append([]string{def.Service.Token}, def.Secrets...),
	}
	if originstorage.ByOwner(def.Storage, desired, body) {
		err = d.asOwner(ctx, desired, opened)
	}
	return opened, err
}

// asOwner has a job posted with an access token of its service's owner. One that is on its
// way is waited for.
func (d *Jobs) asOwner(ctx context.Context, desired *record.Desired, opened *openedJob) error {
	token, err := d.deps.Tokens.Access(ctx, desired, d.session.Now())
	none, ok := errors.AsType[*ownertoken.NoTokenError](err)
	switch {
	case ok && !none.Pending:
		return &unfitError{record.JobNeedsUserToken, "it uses the storage of the origin, and its event names no user, so it is posted with an access token of the owner: " + none.Message}
	case err != nil:
		return err
	}
	opened.submission.Token, opened.byOwner, opened.keys = token.Value, true, originstorage.KeysFor(desired, opened.storage)
	opened.secrets = append(opened.secrets, string(token.Value))
	return nil
}

// repost posts an attempt that was begun in this session once more. That it is still
// ours to post is read anew.
func (d *Jobs) repost(ctx context.Context, a *attempt, assignment record.Assignment, revision int64) {
	opened, err := d.read(ctx, a, assignment)
	if err != nil {
		d.opened(ctx, a, nil, err)
		return
	}
	until := d.session.Now().Add(d.session.TTL / 3)
	if err := d.verify(ctx, a, assignment.UID, revision); err != nil {
		d.opened(ctx, a, nil, err)
		return
	}
	d.post(ctx, a, opened, until)
}

// verify reads, linearizably, that the session is ours, that the assignment is as it
// was, and that its replica is to stand.
func (d *Jobs) verify(ctx context.Context, a *attempt, uid string, revision int64) error {
	assignment, desired := record.AssignmentKey(d.session.ID, a.job, a.number), record.DesiredServiceKey(d.session.ID, a.service)
	cluster := record.DesiredClusterKey(d.session.ID)
	read, err := d.session.Store.Read(ctx, d.session.Lease.Key(), assignment, desired, cluster)
	if err != nil {
		return err
	}
	if kv, ok := read.KV(d.session.Lease.Key()); !ok || kv.CreateRevision != d.session.Lease.CreateRevision() {
		d.session.Lose(session.ErrLost)
		return store.ErrSessionLost
	}
	c, err := d.session.Serves(read.KV(cluster))
	if err != nil {
		return err
	}
	if now := d.session.Standing(c); now.Stopped || now.Restored {
		return errNotOurs
	}
	if kv, ok := read.KV(assignment); !ok || kv.ModRevision != revision {
		return errNotOurs
	}
	if uid == "" { // whose replica it is does not matter
		return nil
	}
	kv, ok := read.KV(desired)
	if !ok {
		return errNotOurs
	}
	w, err := store.Decode[record.Desired](kv)
	if err != nil {
		return err
	}
	if w.UID != uid || w.Intent != record.IntentApply {
		return errNotOurs
	}
	return nil
}

// writable is the last check before a call that changes something, by our own clock.
func (d *Jobs) writable(until time.Time) error {
	if !d.session.Leads() {
		return session.ErrNotLeading
	}
	if d.session.Now().After(until) || !d.session.Lease.Alive() {
		return fmt.Errorf("%w: too much time has passed since it was read", session.ErrStale)
	}
	return nil
}

// post sends the POST. It is not cut off when the term ends, but for StopGrace.
func (d *Jobs) post(ctx context.Context, a *attempt, opened *openedJob, until time.Time) {
	if err := d.writable(until); err != nil || ctx.Err() != nil {
		d.postpone(a)
		return
	}
	if opened.byOwner {
		// OSCAR shows it to us while it answers.
		back, ok := d.deps.Keys.Lend(string(opened.submission.Token), a.service, opened.uid, opened.keys)
		if !ok {
			d.postpone(a)
			return
		}
		defer back()
	}
	if opened.storage != nil {
		d.deps.Origins.LookSoon(a.service)
	}
	d.session.FailPoints.Hit(failBeforePost)
	began := d.session.Now()
	err := d.send(ctx, func(ctx context.Context) error { return d.deps.OSCAR.Submit(ctx, opened.submission, d.cfg.Timeout) })
	d.session.FailPoints.Hit(failAfterPost)
	outcome, status, message := d.outcome(ctx, opened, err)
	ended := d.session.Now()
	d.deps.Metrics.posted(outcome, ended.Sub(began))
	d.session.Log.Info("posted a job", "job", a.job, "attempt", a.number, "service", a.service, "outcome", outcome.String(), "status", status, "seconds", ended.Sub(began).Seconds())
	if opened.storage != nil && (outcome == postFailed || outcome == postNo) {
		d.deps.Origins.Failed(a.service, originstorage.RefusedAge)
	}
	d.finished(a, func(m *memory) {
		if m.posts == 0 {
			m.firstPost = began
		}
		m.posts++
		m.unstarted, m.fromOrigin = began, opened.storage != nil && oscar.BucketEvent(opened.submission.Event)
		m.lastPost, m.outcome, m.status, m.message = ended, outcome, status, message
		m.doubt = m.doubt || outcome == postUnknown
	})
}

// send makes one call that changes something.
func (d *Jobs) send(ctx context.Context, call func(context.Context) error) error {
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.Timeout+time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(d.cfg.StopGrace, cancel) })()
	return call(sending)
}

// outcome judges the answer to a POST.
func (d *Jobs) outcome(ctx context.Context, opened *openedJob, err error) (postOutcome, int, string) {
	if err == nil {
		return postTaken, 0, ""
	}
	if manager.JobExists(err, opened.submission.Name) {
		if d.otherEvent(ctx, opened) {
			return postOther, manager.StatusOf(err), ""
		}
		return postTaken, 0, ""
	}
	api, ok := errors.AsType[*manager.APIError](err)
	if !ok {
		return postUnknown, 0, ""
	}
	message := manager.Scrub(api.Body, opened.secrets...)
	if message == "" && api.Status != 0 {
		message = fmt.Sprintf("OSCAR answered %d to the job", api.Status)
	}
	switch {
	case api.Unanswered():
		return postUnknown, 0, ""
	case api.Status == 0:
		return postUnsent, 0, ""
	case api.Definite():
		return postNo, api.Status, message
	case api.Status == 500:
		return postFailed, api.Status, message
	}
	return postUnknown, api.Status, message // of a proxy
}

// otherEvent says whether Kubernetes shows a Job of this name with another event.
func (d *Jobs) otherEvent(ctx context.Context, opened *openedJob) bool {
	event, err := d.deps.Kube.JobEvent(ctx, opened.owner, opened.submission.Name)
	switch {
	case err == nil:
		return event != string(opened.submission.Event)
	case !errors.Is(err, kube.ErrAbsent):
		d.session.Log.Warn("whether a Job has the event that it should is not known; its name is taken for it", "name", opened.submission.Name, "error", err)
	}
	return false
}

// deleteJob sends the DELETE of a cancelled attempt. What came of it a list tells.
func (d *Jobs) deleteJob(ctx context.Context, a *attempt) {
	d.mu.Lock()
	assignment, revision := *a.assignment, a.revision
	d.mu.Unlock()
	until := d.session.Now().Add(d.session.TTL / 3)
	err := d.verify(ctx, a, "", revision)
	if err == nil {
		err = d.writable(until)
	}
	sent := err == nil && assignment.Cancel
	if sent {
		err = d.send(ctx, func(ctx context.Context) error {
			return d.deps.OSCAR.DeleteJob(ctx, a.service, assignment.Name, d.cfg.Timeout)
		})
		d.session.Log.Info("deleted a job", "job", a.job, "attempt", a.number, "service", a.service, "error", err)
	}
	d.mu.Lock()
	d.slots.deleting--
	d.mu.Unlock()
	if !sent {
		d.postpone(a)
		return
	}
	d.finished(a, func(m *memory) {
		m.deletes++
		m.lastDelete = d.session.Now()
	})
}
