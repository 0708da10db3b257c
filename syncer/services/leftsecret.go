package services

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// OSCAR makes the Secret of a service before all else of it, and deletes it after the rest. So a POST that fails, or an
// OSCAR that dies in a POST or DELETE, can leave the Secret alone, and OSCAR refuses every service with secrets of that
// name from then on. The syncer has no right to delete Secrets. OSCAR has: a POST without secrets is not refused, the
// PUT that follows it overwrites the Secret, and a DELETE takes it along.

// lookForSecret says whether a Secret that a write for this life can have left stands where the service is missing.
func (s *Services) lookForSecret(ctx context.Context, v *observation) error {
	if v.local.whose != noService || !v.memory.leavesSecret && !v.hadSecret() {
		return nil
	}
	left, err := s.deps.Kube.SecretLeft(ctx, v.desired.Owner, v.name)
	if errors.Is(err, kube.ErrAbsent) || errors.Is(err, kube.ErrDenied) {
		return nil
	}
	v.local.secretAlone = left && err == nil
	return err
}

// hadSecret says that the service was seen in place and is to have secrets: who deleted it, or an OSCAR that died
// meanwhile, has left that Secret.
func (v *observation) hadSecret() bool {
	return v.desired.Intent == record.IntentApply && v.observed != nil && v.observed.ReadBack != "" &&
		v.def != nil && len(v.def.Service.Environment.Secrets) > 0
}

// noteSecret is called before a POST of secrets; it returns what is to be called with the outcome.
func (s *Services) noteSecret(v *observation) (func(error), error) {
	if len(v.def.Service.Environment.Secrets) == 0 {
		return func(error) {}, nil
	}
	bare, err := v.def.BareBody()
	if err != nil {
		return nil, err
	}
	mine := v.local.secretAlone
	s.process.writes.change(v.name, func(n *recent) {
		mine = mine || n.bare != nil
		n.bare = bare
	})
	return func(err error) {
		api, ok := errors.AsType[*manager.APIError](err)
		if mine || !ok || api.Status != http.StatusConflict || !strings.Contains(api.Body, secretStands) {
			return
		}
		s.process.writes.change(v.name, func(n *recent) { n.bare = nil }) // it stood before the first POST
	}, nil
}

// secretStands is in OSCAR's answer to a POST whose Secret is there. It answers 409 also after it has made the Secret.
const secretStands = "secret"

// planSecret: the service is gone, and its Secret is not.
func planSecret(s situation) (decision, bool) {
	switch {
	case !s.local.secretAlone || !s.memory.leavesSecret || s.memory.tried == sweep && s.memory.final:
		return decision{}, false
	case s.Stopped:
		return decision{act: rest}, true
	case s.token.pending:
		return decision{act: look, after: pollWrite}, true
	case s.token.reason != "":
		return decision{}, false // it is told that it is left
	}
	if d, wait := s.backOff(sweep); wait {
		return d, true
	}
	return decision{act: sweep}, true
}

// sweep makes the service that is to be gone once more, with nothing but its marks: it is deleted as
// ours, and its Secret with it. That of a user is his again, since the Secret is in his namespace.
func (s *Services) sweep(ctx context.Context, v *observation) (bool, error) {
	var body []byte
	s.process.writes.change(v.name, func(n *recent) { body = n.bare })
	// The image may be why OSCAR refused the service.
	images, err := s.deps.OSCAR.AllowedImages(ctx)
	if err == nil && len(images) > 0 {
		body, err = definition.WithImage(body, images[0])
	}
	if err != nil {
		return false, s.noteFailure(v, sweep, record.ReasonDeleteFailed, err)
	}
	if err := s.fence(v); err != nil {
		return false, err
	}
	err = s.post(ctx, v, sweep, body)
	return err == nil, s.noteFailure(v, sweep, record.ReasonDeleteFailed, err)
}

// secretLeft tells of a Secret that OSCAR could not be made to delete.
const secretLeft = "the service's Secret is left on the cluster, and OSCAR refuses a service of this name with secrets: delete the Secret there"
