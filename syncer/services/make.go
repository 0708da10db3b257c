package services

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// create sends the POST, without outputs elsewhere, which the update that follows adds. One that
// finds buckets of an earlier life is sent without storage, since OSCAR would refuse it; the update
// that follows attaches. So it is with a Secret that is left (leftsecret.go). A volume of an earlier
// life is used by its name.
func (s *Services) create(ctx context.Context, v *observation) (bool, error) {
	made := s.madeBuckets(v)
	if refused, err := s.refuseBucket(ctx, v, create); refused || err != nil {
		return false, err
	}
	adopts, no, err := s.chooseVolume(ctx, v)
	if err != nil {
		return false, err
	}
	if no != nil {
		s.failed(v.name, create, failure{reason: no.reason, message: no.message, definite: true})
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
	if err == nil && v.local.secretAlone {
		body, err = definition.WithoutSecrets(body)
	}
	if err != nil {
		return false, err
	}
	bare, err := s.barePOST(ctx, v)
	if err != nil {
		return false, err
	}
	if err := s.fence(v); err != nil {
		return false, err
	}
	answered := s.noteSecret(ctx, v, bare)
	s.process.writes.change(v.name, func(n *recent) { n.made = definition.Union(n.made, makes) })
	err = s.post(ctx, v, create, body)
	if err := answered(err); err != nil {
		return false, err
	}
	return err == nil, s.noteFailure(v, create, record.ReasonCreateFailed, err)
}

// post sends a POST, and notes what is to be expected of it.
func (s *Services) post(ctx context.Context, v *observation, step act, body []byte) error {
	s.session.FailPoints.Hit(failBeforeCreate)
	sent := s.session.Now()
	s.process.writes.change(v.name, func(n *recent) { s.process.writes.sends(n, sent, s.timeout(v)) })
	err := s.call(ctx, v, step, func(ctx context.Context, timeout time.Duration) error {
		return s.deps.OSCAR.Create(ctx, v.name, body, v.as.Value, timeout)
	})
	s.process.writes.change(v.name, func(n *recent) {
		api, failed := errors.AsType[*manager.APIError](err)
		switch {
		case err == nil:
			n.confirm(v.desired.UID)
		case failed && !api.Silent() && (api.Unanswered() || api.Status != 0 && !api.Definite()):
			n.confirmed = ""
			n.doubt(v.desired.UID, sent)
		}
		if failed && api.Unanswered() {
			s.process.writes.breaksOff(n, api.Silent(), n.written.Add(s.timeout(v)/2))
			return
		}
		n.postAt, n.workingUntil = time.Time{}, time.Time{}
		n.posted = n.posted || err == nil
	})
	s.session.FailPoints.Hit(failAfterCreate)
	return err
}

// fencePut is the fence of a PUT. In the report of a life that was not in place yet it notes it before: of one that was, the
// report tells that what is desired is not, and a PUT is assumed.
func (s *Services) fencePut(ctx context.Context, v *observation) error {
	if o := v.observed; o != nil && !o.PutSent && o.Applied() == 0 {
		if err := s.note(ctx, v, func(next *record.Observed) bool {
			next.PutSent = true
			return true
		}); err != nil {
			return err
		}
	}
	return s.fence(v)
}

// put sends a PUT of a service with its storage, and notes one that may bring that back later.
func (s *Services) put(ctx context.Context, v *observation, step act, body []byte, as manager.Bearer) error {
	sent := s.session.Now()
	err := s.call(ctx, v, step, func(ctx context.Context, timeout time.Duration) error {
		return s.deps.OSCAR.Update(ctx, v.name, body, as, timeout)
	})
	if api, ok := errors.AsType[*manager.APIError](err); ok && api.Unanswered() {
		s.process.writes.change(v.name, func(n *recent) { n.putAt = sent })
	}
	return err
}

// register sends a PUT that has OSCAR register the webhook of the service, which it does for a bucket that the
// definition did not name before.
func (s *Services) register(ctx context.Context, v *observation) (bool, error) {
	body, err := definition.RegisteringBody(v.service)
	if err != nil {
		return false, err
	}
	if err := s.fencePut(ctx, v); err != nil {
		return false, err
	}
	s.session.Log.Warn("the POST failed or broke off, and OSCAR may not have registered the webhook of the service: it is registered again", "service", v.name)
	s.session.FailPoints.Hit(failBeforeUpdate)
	err = s.put(ctx, v, register, body, "")
	s.session.FailPoints.Hit(failAfterUpdate)
	return err == nil, s.noteFailure(v, register, record.ReasonCreateFailed, err)
}

// update sends the PUT of the whole definition. OSCAR makes each bucket that is
// missing.
func (s *Services) update(ctx context.Context, v *observation, repair bool) (bool, error) {
	already, err := definition.BucketsOf(v.service)
	if err != nil {
		return false, err
	}
	made := s.madeBuckets(v)
	elsewhere, err := definition.ElsewhereOf(v.service)
	if err != nil {
		return false, err
	}
	if refused, err := s.refuseBucket(ctx, v, update, slices.Concat(already, elsewhere)...); refused || err != nil {
		return false, err
	}
	if s.refuseMount(v, already) {
		return false, nil
	}
	makes := absent(v.def.Buckets(), v.buckets)
	made = definition.Union(made, makes)
	body, err := v.def.Body(v.service, true, false, v.as.Value != "", made)
	if err != nil {
		return false, err
	}
	if err := s.fencePut(ctx, v); err != nil {
		return false, err
	}
	s.session.FailPoints.Hit(failBeforeUpdate)
	s.process.writes.change(v.name, func(n *recent) {
		n.made = definition.Union(n.made, makes)
		if repair {
			n.beginRepair()
		}
	})
	err = s.put(ctx, v, update, body, v.as.Value)
	if err == nil {
		s.process.writes.change(v.name, (*recent).repaired)
	}
	s.session.FailPoints.Hit(failAfterUpdate)
	return err == nil, s.noteFailure(v, update, record.ReasonUpdateFailed, err)
}
