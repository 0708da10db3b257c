package services

import (
	"context"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
)

// release gives a service free: it goes on as it is, with its Secret, its buckets
// and its token, and without anything that says it belongs to a federation. The
// token stays because OSCAR changes it on no PUT; a client that has it can go on sending jobs.
// OSCAR makes a bucket that the definition names and that is missing, as it does on
// every PUT.
func (s *Services) release(ctx context.Context, v *observation) (bool, error) {
	body, err := definition.ReleasedBody(v.service)
	if err != nil {
		return false, err
	}
	if refused, err := s.refuseGivenBack(ctx, v, body); refused || err != nil {
		return false, err
	}
	if err := s.fencePut(ctx, v); err != nil {
		return false, err
	}
	s.session.FailPoints.Hit(failBeforeRelease)
	err = s.put(ctx, v, release, body, "")
	s.session.FailPoints.Hit(failAfterRelease)
	return err == nil, s.noteFailure(v, release, record.ReasonUpdateFailed, err)
}

// refuseGivenBack notes that a service is not released because it would get back a bucket that is somebody else's by now:
// OSCAR would set its policies.
func (s *Services) refuseGivenBack(ctx context.Context, v *observation, body []byte) (bool, error) {
	if !definition.Registering(v.service) {
		return false, nil
	}
	asked := *v
	var err error
	if asked.def, err = definition.Asked(body, nil, nil); err != nil {
		return false, err
	}
	already, err := definition.BucketsOf(v.service)
	if err != nil {
		return false, err
	}
	return s.refuseBucket(ctx, &asked, release, already...)
}
