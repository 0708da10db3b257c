package syncer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"k8s.io/client-go/util/workqueue"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// offerers is how many Jobs are considered at the same time.
const offerers = 4

// offers are the Jobs of our services as they were last seen, and those to look at. It
// is safe for concurrent use.
type offers struct {
	queue workqueue.TypedRateLimitingInterface[kube.JobKey]

	mu   sync.Mutex
	jobs map[kube.JobKey]*kube.Job
	// of are the Jobs of each service.
	of map[string]map[kube.JobKey]bool
	// refusals are what Kubernetes said to attempts to hold a Job, by its uid.
	refusals map[string]string
	// theirs are the Jobs that OSCAR's own rescheduler may take.
	theirs map[kube.JobKey]bool
}

func newOffers() *offers {
	return &offers{
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[kube.JobKey](20*time.Millisecond, 30*time.Second)),
		jobs: map[kube.JobKey]*kube.Job{}, of: map[string]map[kube.JobKey]bool{}, refusals: map[string]string{}, theirs: map[kube.JobKey]bool{},
	}
}

// seen notes a Job; nil when it is gone. It says how many OSCAR's own rescheduler may
// take, and whether this is the first.
func (o *offers) seen(key kube.JobKey, job *kube.Job) (theirs int, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before := o.jobs[key]; before != nil {
		if job == nil || job.UID != before.UID {
			delete(o.refusals, before.UID)
		}
		if delete(o.of[before.Service], key); len(o.of[before.Service]) == 0 {
			delete(o.of, before.Service)
		}
	}
	none := len(o.theirs) == 0
	if delete(o.theirs, key); job != nil && job.Rescheduler && !job.Ended {
		o.theirs[key] = true
	}
	// One that has ended stays for a month, and is of no interest.
	if delete(o.jobs, key); job != nil && !job.Ended {
		o.jobs[key] = job
		if o.of[job.Service] == nil {
			o.of[job.Service] = map[kube.JobKey]bool{}
		}
		o.of[job.Service][key] = true
	}
	return len(o.theirs), none && len(o.theirs) > 0
}

// job is the last that was seen of a Job; nil for none.
func (o *offers) job(key kube.JobKey) *kube.Job {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.jobs[key]
}

// again has the Jobs of a service looked at.
func (o *offers) again(service string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.of[service] {
		o.queue.Add(key)
	}
}

// allAgain has the Jobs of all services looked at.
func (o *offers) allAgain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.jobs {
		o.queue.Add(key)
	}
}

func (o *offers) refuse(uid, message string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refusals[uid] = message
}

func (o *offers) refusal(uid string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refusals[uid]
}

// offerJobs offers the Jobs that wait here, until ctx ends. What a former process has
// offered, or held, is brought to its end also where no more are offered.
func (t *term) offerJobs(ctx context.Context) {
	t.offered = newOfferIndex(t.session.Mirror)
	defer t.offered.close()
	var all sync.WaitGroup
	defer all.Wait()
	defer t.offers.queue.ShutDown()
	for range offerers {
		all.Go(func() { t.offerEach(ctx) })
	}
	t.offerAll(t.session.Mirror.Snapshot())
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = time.Second, time.Minute
	for {
		err := t.cfg.Kube.WatchJobs(ctx, t.sawJob)
		if ctx.Err() != nil || errors.Is(err, kube.ErrAbsent) {
			return
		}
		pause := wait.NextBackOff()
		if errors.Is(err, kube.ErrDenied) {
			pause = watchDenied
		}
		t.session.Log.Error("Jobs that wait are not offered to the federation: they cannot be watched", "error", err, "pause", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// watchDenied is the pause before Kubernetes is asked again for what it does not allow.
const watchDenied = 5 * time.Minute

// sawJob notes a Job, and has it looked at if its service is ours.
func (t *term) sawJob(key kube.JobKey, job *kube.Job) {
	theirs, first := t.offers.seen(key, job)
	t.metrics.rescheduled.Set(float64(theirs))
	if first {
		t.session.Log.Warn("OSCAR's own rescheduler is on: it may take Jobs elsewhere a second time; set RESCHEDULER_ENABLE=false", "job", key)
	}
	if job == nil || job.Mark.Holding() || t.isDesired(job.Service) {
		t.offers.queue.Add(key)
	}
}

// offerAll looks at every Job that an offer stands for.
func (t *term) offerAll(view *store.MirrorView) {
	for kv := range view.Prefix(record.OffersPrefix(t.session.ID)) {
		t.offerCame(view, record.ParseKey(kv.Key).Name)
	}
}

// offerCame looks at the Job of an offer.
func (t *term) offerCame(view *store.MirrorView, job string) {
	if kv, ok := view.KV(record.OfferKey(t.session.ID, job)); ok {
		if o, err := store.Decode[record.Offer](kv); err == nil {
			t.offers.queue.Add(placeOf(o))
		}
	}
}

func placeOf(o *record.Offer) kube.JobKey { return kube.JobKey{Namespace: o.Namespace, Name: o.Name} }

// offerEach looks at one Job after another, until the queue is shut down.
func (t *term) offerEach(ctx context.Context) {
	for {
		key, shutdown := t.offers.queue.Get()
		if shutdown {
			return
		}
		err := t.considerJob(ctx, key)
		t.offers.queue.Done(key)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			t.offers.queue.Forget(key)
		case errors.Is(err, store.ErrSessionLost):
			t.session.Lose(session.ErrLost)
		case errors.Is(err, session.ErrNotRegistered), errors.Is(err, session.ErrOtherCluster):
			t.session.Lose(err)
		case errors.Is(err, session.ErrStale), errors.Is(err, kube.ErrJobChanged):
			t.offers.queue.AddRateLimited(key)
		default:
			t.session.Log.Warn("Job is looked at again", "job", key, "error", err)
			t.offers.queue.AddRateLimited(key)
		}
	}
}

// considerJob looks at one Job, and takes at most one step.
func (t *term) considerJob(ctx context.Context, key kube.JobKey) error {
	v, err := t.glanceAtJob(key)
	if err != nil || v == nil {
		return err
	}
	d := planOffer(v.offerSight)
	if d.step == offerRead {
		if v, err = t.readJob(ctx, key, v.id); err != nil || v == nil {
			return err
		}
		d = planOffer(v.offerSight)
	}
	switch d.step {
	case offerRest, offerRead:
		return nil
	case offerLook:
		t.offers.queue.AddAfter(key, d.after)
		return nil
	case offerTell:
		err = t.tellOffer(ctx, v, d)
	case offerForget:
		err = t.forgetOffer(ctx, v)
	default:
		err = t.changeJob(ctx, v, d)
	}
	if err == nil {
		t.offers.queue.Add(key)
	}
	return err
}

// tellOffer reports, guarded by the session, and by the answer that it was decided on.
func (t *term) tellOffer(ctx context.Context, v *offeredJob, d offerDecision) error {
	next := record.Offer{
		V: record.Version, State: d.state, Message: d.message, LastTransitionTime: record.At(v.now), Epoch: v.epoch,
		Namespace: v.key.Namespace, Name: v.key.Name,
	}
	if o := v.offer; o != nil {
		next.Federation, next.Service, next.UID, next.Since, next.Size = o.Federation, o.Service, o.UID, o.Since, o.Size
		next.BucketEvent = o.BucketEvent
		if o.State == d.state {
			next.LastTransitionTime = o.LastTransitionTime
		}
	} else {
		next.Service, next.UID, next.Since, next.Size = v.job.Service, v.job.ServiceUID, record.At(v.job.Created), len(v.job.Event)
		next.BucketEvent = oscar.BucketEvent([]byte(v.job.Event))
		if v.desired != nil && v.desired.UID == next.UID {
			next.Federation = v.desired.Federation
		}
	}
	var event *record.Event
	if d.state == record.OfferFrozen && v.recipient != "" {
		sealed, err := seal.Seal(seal.Header{Purpose: record.PurposeEvent, UID: v.id}, []byte(v.job.Event), v.recipient)
		if err != nil {
			return fmt.Errorf("event of Job %s: %w", v.key, err)
		}
		event = &record.Event{V: record.Version, Sealed: sealed}
	}
	written, err := t.writeOffer(ctx, v, func(tx *store.Txn, key string) {
		tx.Put(key, next)
		if event != nil {
			tx.Put(record.OfferedEventKey(t.session.ID, v.id), event)
		}
	})
	if err == nil && written {
		t.metrics.offers.WithLabelValues(string(d.state)).Inc()
		t.session.Log.Info("Job offered", "job", v.id, "name", v.key, "service", next.Service, "state", d.state, "message", d.message)
	}
	return err
}

// forgetOffer removes our report, and the event with it.
func (t *term) forgetOffer(ctx context.Context, v *offeredJob) error {
	_, err := t.writeOffer(ctx, v, func(tx *store.Txn, key string) {
		tx.Delete(key)
		tx.Delete(record.OfferedEventKey(t.session.ID, v.id))
	})
	return err
}

func (t *term) writeOffer(ctx context.Context, v *offeredJob, fill func(tx *store.Txn, key string)) (bool, error) {
	key, answerKey := record.OfferKey(t.session.ID, v.id), record.OfferAnswerKey(t.session.ID, v.id)
	result, err := t.session.Store.Update(ctx, store.Update{
		Keys: []string{t.session.Lease.Key(), key, answerKey, record.OfferedEventKey(t.session.ID, v.id)},
		Build: func(_ store.View, tx *store.Txn) error {
			tx.ExpectSession(t.session.Lease)
			tx.ExpectRevision(key, v.offerRevision)
			tx.ExpectRevision(answerKey, v.answerRevision)
			fill(tx, key)
			return nil
		},
	})
	if _, conflict := errors.AsType[*store.ConflictError](err); conflict {
		return false, fmt.Errorf("%w: %w", session.ErrStale, err)
	}
	return result.Written, err
}

// changeJob takes one step in Kubernetes. The Job is changed in the version that was
// read, and the last thing read were the session and the records.
func (t *term) changeJob(ctx context.Context, v *offeredJob, d offerDecision) error {
	if !t.session.Leads() {
		return session.ErrNotLeading
	}
	if t.session.Now().After(v.until) || !t.session.Lease.Alive() {
		return fmt.Errorf("%w: too much time has passed since it was read", session.ErrStale)
	}
	// A step that is cut off may have been done: it is finished, within its deadline.
	err := t.sendJobStep(context.WithoutCancel(ctx), v, d)
	outcome := "ok"
	switch {
	case errors.Is(err, kube.ErrJobChanged):
		outcome = "changed"
	case errors.Is(err, kube.ErrJobRefused):
		outcome = "refused"
	case err != nil:
		outcome = "error"
	}
	t.metrics.offerSteps.WithLabelValues(d.step.String(), outcome).Inc()
	if errors.Is(err, kube.ErrJobRefused) {
		switch d.step {
		case offerMark, offerHold, offerSuspend, offerDeactivate:
			t.offers.refuse(v.job.UID, err.Error())
		}
	}
	if err == nil {
		t.session.Log.Info("Job changed", "job", v.id, "name", v.key, "step", d.step)
	}
	return err
}

func (t *term) sendJobStep(ctx context.Context, v *offeredJob, d offerDecision) error {
	store, job := t.cfg.Kube, v.job
	yes, no, none := true, false, ""
	leave := func(mark *kube.JobMark, change *kube.JobChange) {
		if job.Queue != "" {
			mark.Queue, change.Queue = job.Queue, &none
		}
	}
	mark := kube.JobMark{Job: v.id, State: kube.MarkHolding}
	if job.Mark != nil {
		mark = *job.Mark
	}
	// restored is the mark of a Job that is as it was found, with its generation then.
	restored := func(generation int64) *kube.JobMark {
		if d.spoiled {
			generation = 0
		}
		at := v.now.UTC().Truncate(time.Second)
		return &kube.JobMark{State: kube.MarkRestored, Generation: generation, Times: mark.Times + 1, At: &at}
	}
	switch d.step {
	case offerMark:
		next := kube.JobMark{Job: v.id, State: kube.MarkHolding, Times: mark.Times}
		change := kube.JobChange{Mark: &next}
		if job.Workload != nil {
			next.Workload = job.Workload.Name
		}
		if job.Suspended {
			leave(&next, &change)
		}
		return store.ChangeJob(ctx, job, change)
	case offerHold:
		return store.HoldPod(ctx, job, d.pod)
	case offerSuspend:
		change := kube.JobChange{Mark: &mark, Suspend: &yes}
		mark.Suspended = true
		leave(&mark, &change)
		return store.ChangeJob(ctx, job, change)
	case offerDeactivate:
		return store.SetActive(ctx, job, false)
	case offerActivate:
		return store.SetActive(ctx, job, true)
	case offerResume:
		return store.ChangeJob(ctx, job, kube.JobChange{Mark: restored(job.Generation + 1), Suspend: &no})
	case offerRestoring:
		mark.State, mark.Generation = kube.MarkRestoring, job.Generation
		if d.spoiled {
			mark.Generation = 0
		}
		return store.ChangeJob(ctx, job, kube.JobChange{Mark: &mark})
	case offerUnmark:
		generation := job.Generation
		if mark.State == kube.MarkRestoring {
			generation = mark.Generation
		}
		change := kube.JobChange{Mark: restored(generation)}
		if left(job) && job.Suspended { // Kueue lets nobody into a queue who runs
			change.Queue = &mark.Queue
		}
		return store.ChangeJob(ctx, job, change)
	case offerDelete:
		return store.DeleteJob(ctx, job)
	}
	return fmt.Errorf("step %s changes nothing", d.step)
}
