package offers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// offeredJob is what a decision about a Job is made from, and what its step needs.
type offeredJob struct {
	situation
	key kube.JobKey
	// id is what the Job is offered as.
	id string
	// recipient is the key that its event is sealed to.
	recipient string
	desired   *record.Desired
	// Revisions of the records; 0 for absent ones.
	offerRevision, answerRevision int64
	// until is when fresh knowledge is too old to act on.
	until time.Time
}

// recall makes an offeredJob from the mirror alone. It is nil when the Job neither is offered
// nor can be.
func (o *Offers) recall(key kube.JobKey) (*offeredJob, error) {
	job := o.seen.job(key)
	view, id, standing := o.index.at(key)
	if id == "" {
		if id = o.offerID(view, job); id == "" {
			return nil, nil //nolint:nilnil // nothing to decide
		}
		if _, taken := view.KV(record.OfferKey(o.session.ID, id)); taken {
			o.session.Log.Warn("Job is not offered: another one has its name", "name", key, "job", id)
			return nil, nil //nolint:nilnil // as above
		}
	}
	v := &offeredJob{key: key, id: id, situation: situation{job: job, another: standing < maxOffers}}
	return v, o.fill(v, view.KV)
}

// examine reads what Kubernetes and etcd have now.
func (o *Offers) examine(ctx context.Context, key kube.JobKey, id string) (*offeredJob, error) {
	v := &offeredJob{key: key, id: id, until: o.session.ReadIsGoodUntil()}
	job, err := o.kube.Job(ctx, key)
	switch {
	case err == nil:
	case errors.Is(err, kube.ErrNoJob):
		job = nil
	default:
		return nil, err
	}
	service := ""
	view, standingID, standing := o.index.at(key)
	if standingID != id {
		if now := o.offerID(view, job); job == nil || now != id {
			return nil, fmt.Errorf("%w: what Job %s is offered as", session.ErrStale, key)
		}
	}
	if kv, ok := view.KV(record.OfferKey(o.session.ID, id)); ok {
		o, err := store.Decode[record.Offer](kv)
		if err != nil {
			return nil, err
		}
		service = o.Service
	}
	if job != nil {
		service = job.Service
	}
	mirrored := []string{
		record.DesiredClusterKey(o.session.ID), record.DesiredServiceKey(o.session.ID, service),
		record.OfferKey(o.session.ID, id), record.OfferAnswerKey(o.session.ID, id),
	}
	seen := o.session.Mirror.Snapshot()
	read, err := o.session.Store.Read(ctx, append(mirrored, o.session.Lease.Key())...)
	if err != nil {
		return nil, err
	}
	if !o.session.Holds(read.KV(o.session.Lease.Key())) {
		return nil, fmt.Errorf("job %q: %w", id, store.ErrSessionLost)
	}
	if !read.Follows(seen, mirrored...) {
		return nil, fmt.Errorf("job %q: %w: etcd was restored, and is not compared yet", id, session.ErrStale)
	}
	v.job, v.fresh, v.another = job, true, standing < maxOffers
	if err := o.fill(v, read.KV); err != nil {
		return nil, err
	}
	if v.offer != nil && locationOf(v.offer) != key {
		return nil, nil //nolint:nilnil // it is another one's
	}
	return v, nil
}

// fill enters what the records say.
func (o *Offers) fill(v *offeredJob, kv func(string) (store.KV, bool)) error {
	v.now = o.session.Now()
	var err error
	if v.Standing, err = o.session.Standing(kv(record.DesiredClusterKey(o.session.ID))); err != nil {
		return err
	}
	if raw, ok := kv(record.OfferKey(o.session.ID, v.id)); ok {
		if v.offer, err = store.Decode[record.Offer](raw); err != nil {
			return err
		}
		v.offerRevision = raw.ModRevision
	}
	if raw, ok := kv(record.OfferAnswerKey(o.session.ID, v.id)); ok {
		a, err := store.Decode[record.OfferAnswer](raw)
		if err != nil {
			return err
		}
		if word := record.Strange(a); word != "" {
			return fmt.Errorf("the answer to an offer has the %s: the control plane is of a newer version", word)
		}
		v.answered, v.answerRevision = true, raw.ModRevision
		if a.Epoch == v.Epoch {
			v.answer, v.recipient, v.cancelled = a.Answer, a.Recipient, a.Answer == record.OfferRelease && a.Cancelled
		}
	}
	v.threshold = o.cfg.After
	if v.job == nil {
		return nil
	}
	v.refused = o.seen.refusal(v.job.UID)
	if raw, ok := kv(record.DesiredServiceKey(o.session.ID, v.job.Service)); ok {
		if v.desired, err = store.Decode[record.Desired](raw); err != nil {
			return err
		}
		if s := v.desired.ReschedulerThreshold; s > 0 {
			v.threshold = time.Duration(s) * time.Second
		}
	}
	if v.barred = o.barred(v); o.cfg.Keep {
		// What is not promised yet is given back as well.
		v.barred, v.refused = offersAreOff, offersAreOff
	}
	return nil
}

const offersAreOff = "its cluster does not offer Jobs to the federation any more"

// barred says why a Job is not to be offered on account of its service; empty when it
// may be.
func (o *Offers) barred(v *offeredJob) string {
	d, j := v.desired, v.job
	switch {
	case v.State != record.ClusterActive && v.State != record.ClusterCordoned:
		return "the cluster leaves the federation"
	case d == nil || d.Intent != record.IntentApply || d.UID != j.ServiceUID:
		return "its service is not one of the federation"
	case d.Paused:
		return "its federation is paused"
	case j.Namespace != o.kube.ServiceNamespace(d.Owner):
		return "it is not where its service is"
	case len(d.Sees) == 0 && v.id == j.UID:
		return "its service delegates to nobody"
	}
	return ""
}

// offerID is what a Job is offered as: its uid, or, when it is an attempt of ours, the
// job; empty when it cannot be offered. Every user can give a Job a name like ours: only
// the assignment makes it so.
func (o *Offers) offerID(view *store.MirrorView, job *kube.Job) string {
	if job == nil {
		return ""
	}
	if job.Mark.Holding() {
		return job.Mark.Job
	}
	id, _, ours := record.OfJobName(job.Name)
	if !ours {
		return job.UID
	}
	// One that was given back stands for a later attempt than its name says.
	for kv := range view.Prefix(record.AssignmentsPrefix(o.session.ID) + id + ".") {
		a, err := store.Decode[record.Assignment](kv)
		if err == nil && a.Name == job.Name && a.Service == job.Service {
			return id
		}
	}
	return ""
}
