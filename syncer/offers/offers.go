package offers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// offerers is how many Jobs are considered at the same time.
const offerers = 4

// Config says when Jobs are offered.
type Config struct {
	// Keep says that Jobs which wait here are not offered to the federation.
	Keep bool
	// After is how long a Job waits before it is offered, where its federation does not
	// say.
	After time.Duration
}

// Offers offers Jobs that wait for capacity here to other clusters, for one session.
type Offers struct {
	cfg     Config
	session *session.Session
	kube    kube.Interface
	metrics *Metrics
	// queue has the Jobs to look at, and seen how they were last seen.
	queue *worker.Worker[kube.JobKey]
	seen  *seenJobs
	// index is there while run runs.
	index *index
}

// New starts nothing.
func New(now *session.Session, cfg Config, k kube.Interface, m *Metrics) *Offers {
	o := &Offers{cfg: cfg, session: now, kube: k, metrics: m, seen: newSeenJobs()}
	o.queue = worker.New(worker.Config[kube.JobKey]{
		Handle: o.reconcile, Goroutines: offerers, MinBackoff: 20 * time.Millisecond, MaxBackoff: 30 * time.Second,
		Stale: []error{session.ErrStale, kube.ErrJobChanged},
		OnError: func(key kube.JobKey, err error) {
			if !now.LoseIfOver(err) {
				now.Log.Warn("Job is looked at again", "job", key, "error", err)
			}
		},
	})
	return o
}

// ServiceChanged has the Jobs of a service looked at.
func (o *Offers) ServiceChanged(service string) {
	for _, key := range o.seen.ofService(service) {
		o.queue.Add(key)
	}
}

// All has the Jobs of all services, and all offers, looked at.
func (o *Offers) All(view *store.MirrorView) {
	for _, key := range o.seen.all() {
		o.queue.Add(key)
	}
	o.allOffers(view)
}

// Run offers the Jobs that wait here, until ctx ends. What a former process has offered, or
// held, is brought to its end also where no more are offered.
func (o *Offers) Run(ctx context.Context) {
	o.index = newIndex(o.session.Mirror)
	defer o.index.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { o.queue.Run(ctx) })
	o.allOffers(o.session.Mirror.Snapshot())
	o.watch(ctx)
}

// watch follows the Jobs of Kubernetes, until ctx ends or there is no Kubernetes.
func (o *Offers) watch(ctx context.Context) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = time.Second, time.Minute
	for {
		err := o.kube.WatchJobs(ctx, o.sawJob)
		if ctx.Err() != nil || errors.Is(err, kube.ErrAbsent) {
			return
		}
		pause := wait.NextBackOff()
		if errors.Is(err, kube.ErrDenied) {
			pause = watchDenied
		}
		o.session.Log.Error("Jobs that wait are not offered to the federation: they cannot be watched", "error", err, "pause", pause)
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
func (o *Offers) sawJob(key kube.JobKey, job *kube.Job) {
	theirs, first := o.seen.note(key, job)
	o.metrics.rescheduled.Set(float64(theirs))
	if first {
		o.session.Log.Warn("OSCAR's own rescheduler is on: it may take Jobs elsewhere a second time; set RESCHEDULER_ENABLE=false", "job", key)
	}
	if job == nil || job.Mark.Holding() || o.session.Desired(job.Service) != nil {
		o.queue.Add(key)
	}
}

// allOffers looks at every Job that an offer stands for.
func (o *Offers) allOffers(view *store.MirrorView) {
	for kv := range view.Prefix(record.OffersPrefix(o.session.ID)) {
		o.Changed(view, record.ParseKey(kv.Key).Name)
	}
}

// Changed looks at the Job of an offer.
func (o *Offers) Changed(view *store.MirrorView, job string) {
	if kv, ok := view.KV(record.OfferKey(o.session.ID, job)); ok {
		if offer, err := store.Decode[record.Offer](kv); err == nil {
			o.queue.Add(locationOf(offer))
		}
	}
}

func locationOf(o *record.Offer) kube.JobKey {
	return kube.JobKey{Namespace: o.Namespace, Name: o.Name}
}

// reconcile looks at one Job, and takes at most one step.
func (o *Offers) reconcile(ctx context.Context, key kube.JobKey) (time.Duration, error) {
	v, err := o.recall(key)
	if err != nil || v == nil {
		return 0, err
	}
	d := plan(v.situation)
	if d.step == stepRead {
		if v, err = o.examine(ctx, key, v.id); err != nil || v == nil {
			return 0, err
		}
		d = plan(v.situation)
	}
	switch d.step {
	case stepRest, stepRead:
		return 0, nil
	case stepLook:
		return d.after, nil
	case stepTell:
		err = o.report(ctx, v, d)
	case stepForget:
		err = o.forget(ctx, v)
	default:
		err = o.change(ctx, v, d)
	}
	if err == nil {
		o.queue.Add(key)
	}
	return 0, err
}

// report reports, guarded by the session, and by the answer that it was decided on.
func (o *Offers) report(ctx context.Context, v *offeredJob, d decision) error {
	next := record.Offer{
		V: record.Version, State: d.state, Message: d.message, LastTransitionTime: record.At(v.now), Epoch: v.Epoch,
		Namespace: v.key.Namespace, Name: v.key.Name, Held: d.held,
	}
	if was := v.offer; was != nil {
		next.Federation, next.Service, next.UID, next.Since, next.Size = was.Federation, was.Service, was.UID, was.Since, was.Size
		next.BucketEvent = was.BucketEvent
		if was.State == d.state {
			next.LastTransitionTime = was.LastTransitionTime
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
		sealed, err := seal.Seal(seal.Header{Purpose: seal.PurposeEvent, UID: v.id}, []byte(v.job.Event), v.recipient)
		if err != nil {
			return fmt.Errorf("event of Job %s: %w", v.key, err)
		}
		event = &record.Event{V: record.Version, Sealed: sealed}
	}
	written, err := o.write(ctx, v, func(tx *store.Txn, key string) {
		tx.Put(key, next)
		if event != nil {
			tx.Put(record.OfferedEventKey(o.session.ID, v.id), event)
		}
	})
	if err == nil && written {
		o.metrics.offers.WithLabelValues(string(d.state)).Inc()
		o.session.Log.Info("Job offered", "job", v.id, "name", v.key, "service", next.Service, "state", d.state, "message", d.message)
	}
	return err
}

// forget removes our report, and the event with it.
func (o *Offers) forget(ctx context.Context, v *offeredJob) error {
	_, err := o.write(ctx, v, func(tx *store.Txn, key string) {
		tx.Delete(key)
		tx.Delete(record.OfferedEventKey(o.session.ID, v.id))
	})
	return err
}

func (o *Offers) write(ctx context.Context, v *offeredJob, fill func(tx *store.Txn, key string)) (bool, error) {
	key, answerKey := record.OfferKey(o.session.ID, v.id), record.OfferAnswerKey(o.session.ID, v.id)
	result, err := o.session.Store.Update(ctx, store.Update{
		Keys: []string{o.session.Lease.Key(), key, answerKey, record.OfferedEventKey(o.session.ID, v.id)},
		Build: func(_ store.View, tx *store.Txn) error {
			tx.ExpectSession(o.session.Lease)
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

// change takes one step in Kubernetes. The Job is changed in the version that was
// read, and the last thing read were the session and the records.
func (o *Offers) change(ctx context.Context, v *offeredJob, d decision) error {
	if err := o.session.Writable(v.until); err != nil {
		return err
	}
	// A step that is cut off may have been done: it is finished, within its deadline.
	err := o.send(context.WithoutCancel(ctx), v, d)
	outcome := "ok"
	switch {
	case errors.Is(err, kube.ErrJobChanged):
		outcome = "changed"
	case errors.Is(err, kube.ErrJobRefused):
		outcome = "refused"
	case err != nil:
		outcome = "error"
	}
	o.metrics.steps.WithLabelValues(d.step.String(), outcome).Inc()
	if errors.Is(err, kube.ErrJobRefused) {
		switch d.step {
		case stepMark, stepHold, stepSuspend, stepDeactivate:
			o.seen.refuse(v.key, v.job.UID, err.Error())
		}
	}
	if err == nil {
		o.session.Log.Info("Job changed", "job", v.id, "name", v.key, "step", d.step)
	}
	return err
}

func (o *Offers) send(ctx context.Context, v *offeredJob, d decision) error {
	switch d.step {
	case stepHold:
		return o.kube.HoldPod(ctx, v.job, d.pod)
	case stepDeactivate:
		return o.kube.SetActive(ctx, v.job, false)
	case stepActivate:
		return o.kube.SetActive(ctx, v.job, true)
	case stepDelete:
		return o.kube.DeleteJob(ctx, v.job)
	}
	change, ok := changeOf(v.id, v.job, d, v.now)
	if !ok {
		return fmt.Errorf("step %s changes nothing", d.step)
	}
	return o.kube.ChangeJob(ctx, v.job, change)
}
