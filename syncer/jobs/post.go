package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

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
	uid string
	// requestID is that of the job.
	requestID string
	storage   *definition.Storage
	keys      originstorage.KeysOf
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
func (j *Jobs) openJob(ctx context.Context, a *attempt, assignment record.Assignment) {
	opened, err := j.read(ctx, a, assignment)
	j.opened(ctx, a, opened, err)
}

func (j *Jobs) opened(ctx context.Context, a *attempt, opened *openedJob, err error) {
	if unfit, ok := errors.AsType[*unfitError](err); ok {
		j.finished(a, func(m *memory) { m.unfit = unfit })
		return
	}
	if err != nil {
		j.unprepared(ctx, a, err)
		return
	}
	j.mu.Lock()
	a.opened, a.memory.unprepared = opened, time.Time{}
	j.mu.Unlock()
	j.finished(a, func(*memory) {})
}

// holderPatience is how long an attempt waits for an access token of the owner while the cluster that holds his
// refresh token is away, or gets none for it; holderPause lies between two tries. Then another member may have the job.
const (
	holderPatience = time.Minute
	holderPause    = 5 * time.Second
)

// unprepared has an attempt prepared again after a pause, or given back when that has failed for too long.
func (j *Jobs) unprepared(ctx context.Context, a *attempt, err error) {
	none, ok := errors.AsType[*ownertoken.NoTokenError](err)
	if ctx.Err() != nil || ok && none.Pending {
		j.postpone(a, j.cfg.RetryPause)
		return
	}
	patience, pause := j.cfg.Resend, j.cfg.RetryPause
	unfit := &unfitError{record.JobWithdrawn, "the syncer could not read its event, or the definition of its service"}
	if ok {
		patience, pause, unfit = min(patience, holderPatience), holderPause, noToken(none)
	} else {
		j.session.Log.Warn("a job cannot be prepared; it is tried again", "job", a.job, "attempt", a.number, "service", a.service, "error", err)
	}
	if j.unpreparedFor(a) >= patience {
		j.finished(a, func(m *memory) { m.unfit = unfit })
		return
	}
	j.postpone(a, pause)
}

// noToken is why an attempt cannot be made without an access token of the owner.
func noToken(none *ownertoken.NoTokenError) *unfitError {
	return &unfitError{record.JobNeedsUserToken, "it uses the storage of the origin, and its event names no user, so it is posted with an access token of the owner: " + none.Message}
}

// unpreparedFor is how long an attempt cannot be prepared by now. The first call begins to count.
func (j *Jobs) unpreparedFor(a *attempt) time.Duration {
	now := j.session.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if a.memory.unprepared.IsZero() {
		a.memory.unprepared = now
	}
	return now.Sub(a.memory.unprepared)
}

// postpone gives the slot back and decides anew after a pause.
func (j *Jobs) postpone(a *attempt, pause time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	a.memory.busy = false
	j.giveSlot(a)
	j.due.AddAfter(a.key, pause)
}

// read opens the event of an attempt, and the token of its service.
func (j *Jobs) read(ctx context.Context, a *attempt, assignment record.Assignment) (*openedJob, error) {
	desired := j.replicaIn(j.session.Mirror.Snapshot(), a.service).desired
	if desired == nil || desired.UID != assignment.UID {
		return nil, errNotOurs
	}
	def, err := j.deps.Definitions.Open(ctx, a.service, desired)
	if definition.Unusable(err) {
		return nil, &unfitError{record.JobWithdrawn, "the syncer cannot open the definition of its service"}
	}
	if err != nil {
		return nil, err
	}
	if def == nil {
		return nil, errNotOurs
	}
	key := record.AssignedEventKey(j.session.ID, a.job, a.number)
	kv, came := j.deps.Events.take(key)
	if !came {
		kv, err = j.session.Store.Get(ctx, key)
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
	want := seal.Header{Purpose: seal.PurposeEvent, Cluster: j.session.ID, UID: a.job, Generation: int64(a.number)}
	body, err := j.session.Identity.Open(event.Sealed, want, j.session.Now())
	if err != nil {
		j.session.Log.Error("event cannot be opened", "job", a.job, "attempt", a.number, "error", err)
		return nil, lostEvent("its event is sealed to another key or for another use; if the syncer's identity file was replaced, replay the job")
	}
	from := def.Service.Annotations[oscar.AnnotationOriginCluster]
	if from == "" {
		from = j.session.ID
	}
	opened := &openedJob{
		submission: manager.Submission{
			Service: a.service, Token: manager.Bearer(def.Service.Token), Name: assignment.Name, From: from, Event: body,
		},
		owner: desired.Owner, uid: desired.UID, requestID: assignment.RequestID, storage: def.Storage,
		secrets: append([]string{def.Service.Token}, def.Secrets...),
	}
	if originstorage.ByOwner(def.Storage, desired, body) {
		err = j.asOwner(desired, opened)
	}
	return opened, err
}

// asOwner has a job posted with an access token of its service's owner. One that is on its
// way is waited for, and a holder that is away.
func (j *Jobs) asOwner(desired *record.Desired, opened *openedJob) error {
	token, err := j.deps.Tokens.Access(desired, j.session.Now())
	none, ok := errors.AsType[*ownertoken.NoTokenError](err)
	switch {
	case ok && !none.Pending && none.Reason != record.ReasonTokenHolderAway:
		return noToken(none)
	case err != nil:
		return err
	}
	opened.submission.Token, opened.byOwner, opened.keys = token.Value, true, originstorage.KeysFor(desired, opened.storage)
	opened.secrets = append(opened.secrets, string(token.Value))
	return nil
}

// repost posts an attempt that was begun in this session once more. That it is still
// ours to post is read anew.
func (j *Jobs) repost(ctx context.Context, a *attempt, assignment record.Assignment, revision int64) {
	opened, err := j.read(ctx, a, assignment)
	if err != nil {
		j.opened(ctx, a, nil, err)
		return
	}
	until := j.session.ReadIsGoodUntil()
	if err := j.verify(ctx, a, assignment.UID, revision); err != nil {
		j.opened(ctx, a, nil, err)
		return
	}
	j.post(ctx, a, opened, until)
}

// verify reads, linearizably, that the session is ours, that the assignment is as it
// was, and that its replica is to stand.
func (j *Jobs) verify(ctx context.Context, a *attempt, uid string, revision int64) error {
	assignment, desired := record.AssignmentKey(j.session.ID, a.job, a.number), record.DesiredServiceKey(j.session.ID, a.service)
	cluster := record.DesiredClusterKey(j.session.ID)
	read, err := j.session.Store.Read(ctx, j.session.Lease.Key(), assignment, desired, cluster)
	if err != nil {
		return err
	}
	if !j.session.Holds(read.KV(j.session.Lease.Key())) {
		j.session.Lose(session.ErrLost)
		return store.ErrSessionLost
	}
	standing, err := j.session.Standing(read.KV(cluster))
	if err != nil {
		return err
	}
	if standing.Stopped || standing.Restored {
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

// post sends the POST. It is sent, and not cut off, also when the syncer stops: the report says that
// OSCAR may have been asked, and the next syncer could not tell that it was not.
func (j *Jobs) post(ctx context.Context, a *attempt, opened *openedJob, until time.Time) {
	if err := j.session.Writable(until); err != nil {
		j.postpone(a, j.cfg.RetryPause)
		return
	}
	if opened.byOwner {
		// OSCAR shows it to us while it answers.
		end, ok := j.deps.Keys.BeginUse(string(opened.submission.Token), a.service, opened.uid, opened.keys)
		if !ok {
			j.postpone(a, j.cfg.RetryPause)
			return
		}
		defer end()
	}
	if opened.storage != nil {
		j.deps.Origins.LookSoon(a.service)
	}
	j.session.FailPoints.Hit(failBeforePost)
	j.deps.Process.asks(a.key)
	began := j.session.Now()
	spanned, end := j.cfg.Tracer.Continue(ctx, opened.requestID, "job post", attribute.String("job", a.job))
	err := j.send(spanned, func(ctx context.Context) error { return j.deps.OSCAR.Submit(ctx, opened.submission, j.cfg.Timeout) })
	end(err)
	j.session.FailPoints.Hit(failAfterPost)
	outcome, status, message := j.outcome(ctx, opened, err)
	ended := j.session.Now()
	j.deps.Metrics.posted(outcome, ended.Sub(began))
	j.session.Log.Info("posted a job", "job", a.job, "attempt", a.number, "service", a.service, "outcome", outcome.String(), "status", status, "seconds", ended.Sub(began).Seconds(),
		"request_id", opened.requestID)
	if opened.storage != nil && (outcome == postFailed || outcome == postNo) {
		j.deps.Origins.Failed(a.service, originstorage.RefusedAge)
	}
	j.finished(a, func(m *memory) {
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
func (j *Jobs) send(ctx context.Context, call func(context.Context) error) error {
	sending, end := session.Outlive(ctx, j.cfg.StopGrace)
	defer end()
	sending, cancel := context.WithTimeout(sending, j.cfg.Timeout+time.Second)
	defer cancel()
	return call(sending)
}

// outcome judges the answer to a POST.
func (j *Jobs) outcome(ctx context.Context, opened *openedJob, err error) (postOutcome, int, string) {
	if err == nil {
		return postTaken, 0, ""
	}
	if manager.JobExists(err, opened.submission.Name) {
		if j.otherEvent(ctx, opened) {
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
func (j *Jobs) otherEvent(ctx context.Context, opened *openedJob) bool {
	event, err := j.deps.Kube.JobEvent(ctx, opened.owner, opened.submission.Name)
	switch {
	case err == nil:
		return event != string(opened.submission.Event)
	case !errors.Is(err, kube.ErrAbsent):
		j.session.Log.Warn("whether a Job has the event that it should is not known; its name is taken for it", "name", opened.submission.Name, "error", err)
	}
	return false
}

// asked is the assignment of an attempt that a call is made for. It may have gone since the call was decided on.
func (j *Jobs) asked(a *attempt) (record.Assignment, int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if a.assignment == nil {
		return record.Assignment{}, 0, errNotOurs
	}
	return *a.assignment, a.revision, nil
}

// deleteJob sends the DELETE of a cancelled attempt. What came of it a list tells.
func (j *Jobs) deleteJob(ctx context.Context, a *attempt) {
	assignment, revision, err := j.asked(a)
	if err == nil {
		until := j.session.ReadIsGoodUntil()
		if err = j.verify(ctx, a, "", revision); err == nil {
			err = j.session.Writable(until)
		}
	}
	sent := err == nil && assignment.Cancel
	if sent {
		err = j.send(ctx, func(ctx context.Context) error {
			return j.deps.OSCAR.DeleteJob(ctx, a.service, assignment.Name, j.cfg.Timeout)
		})
		j.session.Log.Info("deleted a job", "job", a.job, "attempt", a.number, "service", a.service, "error", err, "request_id", assignment.RequestID)
	}
	j.mu.Lock()
	j.slots.deleting--
	j.mu.Unlock()
	if !sent {
		j.postpone(a, j.cfg.RetryPause)
		return
	}
	j.finished(a, func(m *memory) {
		m.deletes++
		m.lastDelete = j.session.Now()
	})
}
