package services

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// OSCAR makes the Secret of a service before all else of it, and deletes it after the rest. So a POST that fails, or an
// OSCAR that dies in a POST or DELETE, can leave the Secret alone, and OSCAR refuses every service with secrets of that
// name from then on. The syncer has no right to delete Secrets. OSCAR has: a POST without secrets is not refused, the
// PUT that follows it overwrites the Secret, and a DELETE takes it along.
//
// A Secret that stands alone is taken for ours when a write was at work that can have left it, and none stood before that
// write. Nothing else tells: OSCAR gives it no label and no owner, and the syncer has no right to read it. Such a write is
// noted in the report before it is sent (Observed.Bare), for a syncer that is started later. A readmission, which deletes
// the report, keeps the note in the order (Told.Bare). One that could not be deleted, as for want of its owner's token, is
// told with the end of its life (Deleted.SecretLeft), and the next life of the same owner takes it for its own.
//
// Without Kubernetes, OSCAR's answer to a POST tells that a Secret stands; then it is taken for ours where the service was
// seen, and nowhere else.

// lookForSecret says whether a Secret that a write for this life can have left stands where the service is missing.
func (s *Services) lookForSecret(ctx context.Context, v *observation) error {
	noted, had := v.notedBare() != "", v.hadSecret()
	s.process.writes.change(v.name, func(n *recent) {
		if n.erased == v.desired.UID { // of that DELETE this process knows more
			noted, had = false, false
		}
	})
	if v.local.whose != noService || !v.memory.leavesSecret && !noted && !had && !v.inheritsSecret() {
		return nil
	}
	left, known, err := s.secretStands(ctx, v)
	if err == nil && !known {
		left = v.memory.secretTold
	}
	v.local.secretAlone = left
	switch {
	case !left || v.memory.leavesSecret:
	case noted:
		s.recallBare(v)
	case had && v.desired.Tombstone():
		s.process.writes.change(v.name, func(n *recent) { n.leavesSecret = n.bare != nil })
		v.memory = s.process.writes.read(v.name, v.desired, v.revision)
	}
	return err
}

// secretStands says whether there is a Secret of the service's name, and whether Kubernetes tells that at all.
func (s *Services) secretStands(ctx context.Context, v *observation) (stands, known bool, err error) {
	stands, err = s.deps.Kube.SecretLeft(ctx, v.desired.Owner, v.name)
	if errors.Is(err, kube.ErrAbsent) || errors.Is(err, kube.ErrDenied) {
		return false, false, nil
	}
	return stands && err == nil, err == nil, err
}

// recallBare takes up the note of an earlier process, whose write may still take effect.
func (s *Services) recallBare(v *observation) {
	bare, err := s.session.Identity.Open(v.notedBare(), s.bareHeader(v), s.session.Now())
	if err == nil {
		bare, err = definition.BareNoted(bare, v.name, v.desired.Mark)
	}
	if err != nil {
		s.session.Log.Error("what would delete a left Secret cannot be opened", "service", v.name, "error", err)
		return
	}
	s.process.writes.change(v.name, func(n *recent) {
		n.bare, n.leavesSecret = bare, true
		if at, ok := s.process.inDoubt.assumes(v.name, s.session.Now()); ok && n.assumedAt.IsZero() {
			n.assumedAt = at
		}
	})
	v.memory = s.process.writes.read(v.name, v.desired, v.revision)
}

// notedBare is the note of a write of this life; empty for none. A readmission has moved it from the report to the order.
func (v *observation) notedBare() string {
	if o := v.observed; o != nil && (o.Bare != "" || o.ReadBack != "") {
		return o.Bare
	}
	if told := v.desired.Told; told != nil {
		return told.Bare
	}
	return ""
}

func (s *Services) bareHeader(v *observation) seal.Header {
	return seal.Header{Purpose: seal.PurposeBare, Cluster: s.session.ID, UID: v.desired.UID}
}

// keepBare notes in the last report what a write may leave alone; nil is nothing. It does so before the write, and a life
// without a report has no note.
func (s *Services) keepBare(ctx context.Context, v *observation, bare []byte) error {
	sealed, err := "", error(nil)
	if bare != nil {
		sealed, err = seal.Seal(s.bareHeader(v), bare, s.session.Identity.Recipient())
	}
	if err != nil {
		return err
	}
	return s.note(ctx, v, func(next *record.Observed) bool {
		news := (next.Bare == "") != (sealed == "")
		if news {
			next.Bare = sealed
		}
		return news
	})
}

// hadSecret says that the service was seen and is to have secrets, as far as a tombstone tells: who deleted it, or an OSCAR
// that died or was at work on a PUT meanwhile, has left that Secret.
func (v *observation) hadSecret() bool {
	return v.wasSeen() && (v.desired.Tombstone() || v.desired.Intent == record.IntentApply && v.hasSecrets())
}

// hasSecrets says that the definition has secrets; that of a tombstone is gone.
func (v *observation) hasSecrets() bool {
	return v.def != nil && len(v.def.Service.Environment.Secrets) > 0
}

// knowBare keeps what would delete a left Secret, for a tombstone that finds the service gone.
func (s *Services) knowBare(v *observation) error {
	if !v.hasSecrets() {
		return nil
	}
	var err error
	s.process.writes.change(v.name, func(n *recent) {
		if n.bare == nil {
			n.bare, err = v.def.BareBody()
		}
	})
	return err
}

// inheritsSecret says that what stands is of an earlier life, and this one was not seen in place.
func (v *observation) inheritsSecret() bool { return v.desired.SecretLeft && !v.everStood() }

// barePOST is the body that makes the service bare, and noted, before a POST of secrets; nil for another POST.
func (s *Services) barePOST(ctx context.Context, v *observation) ([]byte, error) {
	if !v.hasSecrets() {
		return nil, nil
	}
	bare, err := v.def.BareBody()
	if err != nil {
		return bare, err
	}
	if !v.local.secretAlone {
		// One that stands already is not ours, unless that is noted.
		if stands, known, err := s.secretStands(ctx, v); err != nil || stands || !known {
			return bare, err
		}
	}
	return bare, s.keepBare(ctx, v, bare)
}

// noteSecret is called before a POST of secrets; it returns what is to be called with the outcome.
func (s *Services) noteSecret(ctx context.Context, v *observation, bare []byte) func(error) error {
	if bare == nil {
		return func(error) error { return nil }
	}
	had := v.hadSecret()
	mine := v.local.secretAlone || v.notedBare() != "" || had
	s.process.writes.change(v.name, func(n *recent) {
		mine = mine || n.leavesSecret
		n.bare, n.leavesSecret = bare, true
	})
	return func(err error) error {
		api, ok := errors.AsType[*manager.APIError](err)
		if !ok || api.Status != http.StatusConflict || !strings.Contains(api.Body, secretThere) {
			return nil
		}
		if mine {
			s.process.writes.change(v.name, func(n *recent) { n.secretTold = had })
			return nil
		}
		s.process.writes.change(v.name, func(n *recent) { n.leavesSecret = false }) // it stood before the first POST
		return s.keepBare(ctx, v, nil)
	}
}

// secretThere is in OSCAR's answer to a POST whose Secret is there. It answers 409 also after it has made the Secret.
const secretThere = "secret"

// planSecret: the service is gone, and its Secret is not.
func planSecret(s situation) (decision, bool) {
	switch {
	case !s.local.secretAlone || !s.memory.leavesSecret || s.sweptInVain():
		return decision{}, false
	case s.desired.Keep == record.KeepRelease:
		return decision{}, false // it is told that it is left: the service that is made for it would be given free
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

// sweepTries is how often a sweep is tried: an OSCAR that makes no services for some ten minutes is waited for.
const sweepTries = 15

// sweptInVain says that the Secret stays. A creation that is taken back does not hold up the next one, which overwrites it.
func (s situation) sweptInVain() bool {
	switch {
	case s.memory.tried != sweep || !s.memory.final:
		return false
	case s.desired.Cause == record.CauseRollback:
		return true
	}
	return s.memory.failure.definite || s.memory.tries >= sweepTries
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
const secretLeft = "the service's Secret is left on the cluster, and OSCAR refuses a service of this name with secrets: " +
	"create the service again, which overwrites it, or delete the Secret there"
