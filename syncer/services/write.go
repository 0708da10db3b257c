package services

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// maxSteps bounds how many writes one service gets in a row: a create that
// attaches needs two, a deletion with data four.
const maxSteps = 6

// write takes one service as far as it goes now. Only one write is under way at
// any time. Each is preceded by a fresh look, which is also the fence.
func (s *Services) write(ctx context.Context, name string) (bool, error) {
	s.process.metrics.queue.Set(float64(s.writes.Len()))
	measured := false
	s.writing.Store(true)
	defer s.writing.Store(false)
	s.process.forecast.begin(s.session.Now())
	defer func() { s.process.forecast.end(s.session.Now(), measured) }()
	for range maxSteps {
		if !s.session.Leads() {
			return false, session.ErrNotLeading // without asking OSCAR in vain
		}
		v, err := s.examine(ctx, name)
		if err != nil {
			return false, s.blocked(ctx, v, err)
		}
		d := plan(v.situation)
		if !d.act.writes() {
			if d.act == castVote {
				break // a vote shares its list with others
			}
			_, err := s.carryOut(ctx, v, d)
			return false, err
		}
		answered, err := s.step(ctx, v, d)
		if err != nil {
			return false, err
		}
		measured = measured || answered && (d.act == create || d.act == erase)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
	s.decisions.Add(name)
	return false, nil
}

// step does one write. It says whether OSCAR did what it was asked, as far as
// its answer tells; what became of it is found by looking again. Its error is
// about us: a fence, or etcd.
func (s *Services) step(ctx context.Context, v *observation, d decision) (bool, error) {
	if d.drifted {
		if err := s.report(ctx, v, finding{phase: record.PhaseDrifted, reason: record.ReasonDrifted, message: d.message}); err != nil {
			return false, err
		}
		// The report has moved nothing that the fence looks at.
	}
	switch d.act {
	case create:
		return s.create(ctx, v)
	case update:
		return s.update(ctx, v, d.repair)
	case detach:
		return s.detach(ctx, v)
	case erase:
		return s.erase(ctx, v)
	case dropBuckets:
		return s.dropBuckets(ctx, v)
	case dropVolume:
		return s.dropVolume(ctx, v)
	case heal:
		return s.heal(ctx, v, d)
	case release:
		return s.release(ctx, v)
	}
	return false, fmt.Errorf("step %s is no write", d.act)
}

// create sends the POST. One that finds buckets of an earlier life is sent
// without storage, since OSCAR would refuse it; the update that follows attaches. A
// volume of an earlier life is used by its name.
func (s *Services) create(ctx context.Context, v *observation) (bool, error) {
	made := s.madeBuckets(v)
	if refused, err := s.refuseBucket(v, create); refused || err != nil {
		return false, err
	}
	adopts, no, err := s.chooseVolume(ctx, v)
	if err != nil {
		return false, err
	}
	if no != nil {
		s.process.writes.change(v.name, func(n *recent) {
			n.failed(create, failure{reason: no.reason, operation: create.operation(), message: no.message}, true, s.session.Now(), s.cfg.RetryPause, s.cfg.Resync)
		})
		return false, nil
	}
	storage := true
	var makes []string
	if v.def.MakesBuckets() {
		for _, bucket := range v.def.DataBuckets() {
			if _, exists := v.buckets[bucket]; exists {
				storage = false
			}
		}
		if storage {
			makes = absent(v.def.Buckets(), v.buckets)
		}
	}
	made = definition.Union(made, makes)
	body, err := v.def.Body(nil, storage, adopts, v.as.Value != "", made)
	if err != nil {
		return false, err
	}
	if err := s.fence(v); err != nil {
		return false, err
	}
	s.session.FailPoints.Hit(failBeforeCreate)
	sent := s.session.Now()
	s.process.writes.change(v.name, func(n *recent) {
		n.postAt, n.openUntil, n.made = sent, sent.Add(s.timeout(v)), definition.Union(n.made, makes)
	})
	err = s.call(ctx, v, create, func(ctx context.Context, timeout time.Duration) error {
		return s.deps.OSCAR.Create(ctx, v.name, body, v.as.Value, timeout)
	})
	s.process.writes.change(v.name, func(n *recent) {
		n.written = s.session.Now()
		if api, ok := errors.AsType[*manager.APIError](err); ok && api.Unanswered() {
			n.openUntil = n.written.Add(s.timeout(v) / 2)
			return
		}
		n.postAt, n.openUntil = time.Time{}, time.Time{}
		n.posted = n.posted || err == nil
	})
	s.session.FailPoints.Hit(failAfterCreate)
	return err == nil, s.noteFailure(v, create, record.ReasonCreateFailed, err)
}

// update sends the PUT of the whole definition. OSCAR makes each bucket that is
// missing.
func (s *Services) update(ctx context.Context, v *observation, repair bool) (bool, error) {
	already, err := definition.BucketsOf(v.service)
	if err != nil {
		return false, err
	}
	made := s.madeBuckets(v)
	if refused, err := s.refuseBucket(v, update, already...); refused || err != nil {
		return false, err
	}
	makes := absent(v.def.Buckets(), v.buckets)
	made = definition.Union(made, makes)
	body, err := v.def.Body(v.service, true, false, v.as.Value != "", made)
	if err != nil {
		return false, err
	}
	if err := s.fence(v); err != nil {
		return false, err
	}
	s.session.FailPoints.Hit(failBeforeUpdate)
	s.process.writes.change(v.name, func(n *recent) {
		n.made = definition.Union(n.made, makes)
		if repair {
			n.repairing = true
			if n.unfixable != "" { // it is another change now
				n.repairs, n.unfixable = 0, ""
			}
		}
	})
	err = s.call(ctx, v, update, func(ctx context.Context, timeout time.Duration) error {
		return s.deps.OSCAR.Update(ctx, v.name, body, v.as.Value, timeout)
	})
	s.process.writes.change(v.name, func(n *recent) {
		n.written = s.session.Now()
		if err == nil {
			n.repaired()
		}
	})
	s.session.FailPoints.Hit(failAfterUpdate)
	return err == nil, s.noteFailure(v, update, record.ReasonUpdateFailed, err)
}

// detach takes the storage out of the service, so that its DELETE leaves the
// buckets alone. OSCAR answers 500 and has done it.
func (s *Services) detach(ctx context.Context, v *observation) (bool, error) {
	body, err := definition.DetachedBody(v.service.JSON)
	if err != nil {
		return false, err
	}
	if err := s.fence(v); err != nil {
		return false, err
	}
	s.session.FailPoints.Hit(failBeforeDetach)
	err = s.call(ctx, v, detach, func(ctx context.Context, timeout time.Duration) error {
		return s.deps.OSCAR.Update(ctx, v.name, body, "", timeout)
	})
	s.process.writes.change(v.name, func(n *recent) { n.written = s.session.Now() })
	s.session.FailPoints.Hit(failAfterDetach)
	return err == nil, s.noteFailure(v, detach, record.ReasonDetachFailed, err)
}

// erase sends the DELETE of a detached service.
func (s *Services) erase(ctx context.Context, v *observation) (bool, error) {
	if err := s.fence(v); err != nil {
		return false, err
	}
	s.session.FailPoints.Hit(failBeforeErase)
	sent := s.session.Now()
	s.process.writes.change(v.name, func(n *recent) { n.deleteAt, n.absentIn = sent, nil })
	err := s.call(ctx, v, erase, func(ctx context.Context, timeout time.Duration) error {
		return s.deps.OSCAR.Delete(ctx, v.name, timeout)
	})
	s.process.writes.change(v.name, func(n *recent) {
		n.written, n.erased = s.session.Now(), v.desired.UID
		if api, ok := errors.AsType[*manager.APIError](err); !ok || !api.Unanswered() {
			n.deleteAt = time.Time{}
		}
	})
	s.session.FailPoints.Hit(failAfterErase)
	return err == nil, s.noteFailure(v, erase, record.ReasonDeleteFailed, err)
}

// dropBuckets deletes the buckets that this life made and that still say so, as the
// owner ordered. One that another service names by now is left.
func (s *Services) dropBuckets(ctx context.Context, v *observation) (bool, error) {
	used, err := s.usedBuckets(ctx, s.session.Now())
	if err != nil {
		return false, err
	}
	for _, name := range s.notedBuckets(v) {
		bucket, exists := v.buckets[name]
		if !exists {
			continue
		}
		if why := keeps(bucket, v.name, v.desired.Owner, true, used[name]); why != "" {
			s.session.Log.Warn("bucket is left", "service", v.name, "bucket", name, "reason", why)
			continue
		}
		if err := s.fence(v); err != nil {
			return false, err
		}
		s.session.FailPoints.Hit(failBeforeDrop)
		err := s.call(ctx, v, dropBuckets, func(ctx context.Context, timeout time.Duration) error {
			return s.deps.OSCAR.DeleteBucket(ctx, name, timeout)
		})
		s.process.writes.change(v.name, func(n *recent) { n.written = s.session.Now() })
		s.session.FailPoints.Hit(failAfterDrop)
		if err != nil && !manager.NotFound(err) {
			return false, s.noteFailure(v, dropBuckets, record.ReasonDeleteFailed, err)
		}
	}
	s.process.writes.change(v.name, func(n *recent) { n.bucketsDropped = true })
	return true, nil
}

// heal makes a half-created service deletable through Kubernetes. Without
// Kubernetes it stays as it is and says so.
func (s *Services) heal(ctx context.Context, v *observation, d decision) (bool, error) {
	if err := s.fence(v); err != nil {
		return false, err
	}
	err := s.call(ctx, v, heal, func(ctx context.Context, _ time.Duration) error { return s.deps.Kube.Heal(ctx, v.name) })
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, kube.ErrAbsent) {
		s.session.Log.Warn("half-created service is not healed", "service", v.name, "error", err)
	}
	final := errors.Is(err, kube.ErrAbsent) || errors.Is(err, kube.ErrDenied)
	s.process.writes.change(v.name, func(n *recent) {
		n.failed(heal, failure{reason: d.reason, operation: "heal", message: d.message}, final, s.session.Now(), s.cfg.RetryPause, s.cfg.Resync)
	})
	return false, nil
}

// fence is the last check before a write: the Lease is ours, the sight is recent
// enough and the session is ours, all by our own clock. That the last two were so in
// etcd was read last of all when the sight was made.
func (s *Services) fence(v *observation) error {
	if !s.session.Leads() {
		return session.ErrNotLeading
	}
	if !v.fresh || s.session.Now().After(v.until) || !s.session.Lease.Alive() {
		return fmt.Errorf("%w: too much time has passed since it was read", session.ErrStale)
	}
	return nil
}

// call sends one write. It is not cut off when the term ends, since half a write
// helps nobody, but for StopGrace.
func (s *Services) call(ctx context.Context, v *observation, step act, send func(context.Context, time.Duration) error) error {
	timeout := s.timeout(v)
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout+time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(s.cfg.StopGrace, cancel) })()
	began := s.session.Now()
	err := send(sending, timeout)
	outcome := "ok"
	if api, ok := errors.AsType[*manager.APIError](err); ok {
		switch {
		case api.Definite():
			outcome = "refused"
		case api.Unanswered():
			outcome = "unanswered"
		default:
			outcome = "error"
		}
	} else if err != nil {
		outcome = "error"
	}
	s.process.metrics.wrote(step, outcome, s.session.Now().Sub(began))
	s.session.Log.Info("wrote to OSCAR", "service", v.name, "step", step.String(), "outcome", outcome,
		"status", manager.StatusOf(err), "seconds", s.session.Now().Sub(began).Seconds())
	return err
}

// timeout of a write: a POST waits until images are fetched, when that is asked.
func (s *Services) timeout(v *observation) time.Duration {
	if v.def != nil && v.def.Service.ImagePrefetch {
		return s.cfg.PrefetchTimeout
	}
	return s.cfg.WriteTimeout
}

// noteFailure keeps why a write failed; whether it did is found by looking again.
// An unanswered POST is no failure yet. What is no *manager.APIError is
// returned.
func (s *Services) noteFailure(v *observation, step act, reason record.Reason, err error) error {
	if err == nil {
		// Until the next look shows otherwise, it had no effect: so an OSCAR that
		// says yes and does nothing is not asked for ever.
		s.process.writes.change(v.name, func(n *recent) {
			n.failed(step, failure{reason: reason, operation: step.operation(), message: noEffect(v, step)},
				false, s.session.Now(), s.cfg.RetryPause, s.cfg.Resync)
		})
		return nil
	}
	api, ok := errors.AsType[*manager.APIError](err)
	if !ok {
		return err
	}
	if api.Unanswered() && step == create {
		return nil
	}
	f := failure{reason: reason, operation: step.operation(), status: api.Status, message: manager.Scrub(api.Body, v.secrets()...)}
	final := api.Definite()
	switch {
	case (step == create || step == update) && v.token.needed && manager.NotAdmitted(err) && (manager.Refused(err) || f.message == ""):
		no := notAllowed(s.session.ID)
		f.reason, f.message = no.reason, no.message
	case manager.Refused(err):
		no := refusedCredential()
		f.reason, f.message = no.reason, no.message
	case api.Status == 0:
		f.reason, f.message = record.ReasonOscarUnreachable, "the cluster's OSCAR does not answer; it is tried again"
	case f.message == "":
		f.message = fmt.Sprintf("%s answered %d", f.operation, api.Status)
	}
	inTime := v.desired.Deadline != nil && s.session.Now().Before(s.due(v.name, v.desired))
	s.process.writes.change(v.name, func(n *recent) {
		n.failed(step, f, final, s.session.Now(), s.cfg.RetryPause, s.cfg.Resync)
		if inTime && f.reason == record.ReasonOscarUnreachable {
			n.final = false // there is time left for it to come back
		}
	})
	return nil
}

// noEffect says what is wrong when a step was answered with success and the
// next look shows no change.
func noEffect(v *observation, step act) string {
	switch step {
	case create:
		return "OSCAR says that it made the service, and does not list it; look into its log"
	case update:
		what := "the service"
		if v.local.differs != "" {
			what = v.local.differs
		}
		return fmt.Sprintf("OSCAR says that it changed the service, and %s is still not as asked; compare the definition with what OSCAR shows", what)
	case release:
		return "OSCAR says that it changed the service, and it still carries our marks; look into its log"
	case detach:
		return "OSCAR says that it changed the service, and it still names its buckets; it is not deleted, since OSCAR would delete them with it"
	}
	return "OSCAR says that it deleted the service, and still lists it; look into its log"
}

// refuseBucket notes that a step is refused for a bucket that is not ours.
func (s *Services) refuseBucket(v *observation, step act, already ...string) (bool, error) {
	bucket, reason, err := s.foreignBucket(v, already)
	if bucket == "" || err != nil {
		return false, err
	}
	s.process.writes.change(v.name, func(n *recent) {
		n.failed(step, failure{reason: reason, operation: step.operation(), message: foreignBucketMessage(bucket, reason)},
			true, s.session.Now(), s.cfg.RetryPause, s.cfg.Resync)
	})
	return true, nil
}

// absent are those names that are not among the buckets.
func absent(names []string, buckets answers.BucketSet) []string {
	var out []string
	for _, name := range names {
		if _, exists := buckets[name]; !exists {
			out = append(out, name)
		}
	}
	return out
}

// operation is how reports name a step.
func (a act) operation() string {
	switch a {
	case detach:
		return "detach"
	case erase, dropBuckets, dropVolume:
		return "delete"
	}
	return strings.ReplaceAll(a.String(), " ", "_")
}
