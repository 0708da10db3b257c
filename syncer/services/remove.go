package services

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/session"
)

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
	s.session.FailPoints.Hit(failAfterDetach)
	return err == nil, s.noteFailure(v, detach, record.ReasonDetachFailed, err)
}

// erase sends the DELETE of a detached service.
func (s *Services) erase(ctx context.Context, v *observation) (bool, error) {
	bare, err := definition.BareShown(v.service)
	if err != nil {
		return false, err
	}
	if v.observed.Erased() {
		if err := s.report(ctx, v, finding{phase: record.PhaseDeleting}); err != nil { // of this DELETE nothing is known yet
			return false, err
		}
	}
	stands, _, err := s.secretStands(ctx, v)
	if err == nil && stands {
		err = s.keepBare(ctx, v, bare)
	}
	if err == nil {
		err = s.keepMade(ctx, v)
	}
	if err != nil {
		return false, err
	}
	if err := s.fence(v); err != nil {
		return false, err
	}
	s.session.FailPoints.Hit(failBeforeErase)
	sent := s.session.Now()
	s.process.writes.change(v.name, func(n *recent) { n.erases(sent, bare) })
	err = s.call(ctx, v, erase, func(ctx context.Context, timeout time.Duration) error {
		return s.deps.OSCAR.Delete(ctx, v.name, timeout)
	})
	s.process.writes.change(v.name, func(n *recent) {
		n.erased = v.desired.UID
		switch api, ok := errors.AsType[*manager.APIError](err); {
		case !ok || !api.Unanswered():
			n.deleteAt, n.leavesSecret = time.Time{}, false
		case api.Silent():
			n.lateDeleteAt = sent // OSCAR takes the webhook of that name when the service is gone
		}
	})
	s.session.FailPoints.Hit(failAfterErase)
	return err == nil, s.noteFailure(v, erase, record.ReasonDeleteFailed, err)
}

// tellErased reports, as the session ends, that OSCAR has answered the DELETE: the next one need not take it to be still
// at work. It looks whether all is gone. Of a DELETE before it that may be at work yet, that says nothing.
func (s *Services) tellErased(ctx context.Context, v *observation) {
	if s.process.writes.read(v.name, v.desired, v.revision).lateDeleteUntil.After(s.session.Now()) {
		return
	}
	ctx, release := session.Outlive(ctx, s.cfg.StopGrace)
	defer release()
	err := s.report(ctx, v, finding{
		phase: record.PhaseDeleting, operation: record.OperationDelete, status: http.StatusNoContent,
		message: "OSCAR has deleted it; it is acknowledged when the syncer has seen that it is gone",
	})
	if err != nil {
		s.session.Log.Info("the end of a DELETE is not reported", "service", v.name, "error", err)
	}
}

// keepMade notes in the last report the buckets that this life made: what the service says of them goes with it.
func (s *Services) keepMade(ctx context.Context, v *observation) error {
	made := s.madeBuckets(v)
	if len(made) == 0 {
		return nil
	}
	return s.note(ctx, v, func(next *record.Observed) bool {
		before := len(next.BucketsMade)
		next.BucketsMade = definition.Union(next.BucketsMade, made)
		return len(next.BucketsMade) > before
	})
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
		err := s.dropBucket(ctx, v, bucket)
		s.session.FailPoints.Hit(failAfterDrop)
		if err != nil && !manager.NotFound(err) {
			return false, s.notDropped(v, dropBuckets, err)
		}
	}
	s.process.writes.change(v.name, func(n *recent) { n.bucketsDropped = true })
	return true, nil
}

// dropBucket deletes one bucket with the rights that MinIO's policies give on its name: they
// outlive it otherwise, and are good for the bucket that another user makes of that name.
// OSCAR takes them back in its owner's DELETE only. Without a token of his the bucket goes, too:
// he wants its data gone, and the rights that stay are his own.
func (s *Services) dropBucket(ctx context.Context, v *observation, bucket manager.Bucket) error {
	if v.as.Value != "" {
		if err := s.dropAsOwner(ctx, v, bucket); !manager.NotAdmitted(err) {
			return err
		}
		s.session.Log.Warn("OSCAR does not let the owner of a bucket in: his rights on its name stay", "service", v.name, "bucket", bucket.Name)
	}
	if bucket.Visibility == oscar.VisibilityPublic {
		err := s.call(ctx, v, dropBuckets, func(ctx context.Context, timeout time.Duration) error {
			return s.deps.OSCAR.HideBucket(ctx, bucket.Name, timeout)
		})
		if has, no := s.deps.OSCAR.Visibility(ctx, bucket.Name); no != nil || has == oscar.VisibilityPublic {
			return cmp.Or(no, err, errStillPublic)
		}
	}
	return s.deleteBucket(ctx, v, bucket.Name, "")
}

// dropAsOwner is dropBucket with the owner's token.
func (s *Services) dropAsOwner(ctx context.Context, v *observation, bucket manager.Bucket) error {
	as := v.as.Value
	if bucket.Visibility == "" {
		// It is private, or nobody's any more: then OSCAR would find no right to take, and take another one.
		has, err := s.deps.OSCAR.Visibility(ctx, bucket.Name)
		if err != nil {
			return err
		}
		if has == "" {
			as = ""
		}
	}
	err := s.deleteBucket(ctx, v, bucket.Name, as)
	if as != "" && bucket.Visibility == oscar.VisibilityRestricted && len(bucket.AllowedUsers) == 0 &&
		manager.StatusOf(err) == http.StatusInternalServerError && !manager.NotAdmitted(err) {
		// OSCAR has taken its owner's, and cannot delete a group that has no members.
		err = s.deleteBucket(ctx, v, bucket.Name, "")
	}
	return err
}

func (s *Services) deleteBucket(ctx context.Context, v *observation, name string, as manager.Bearer) error {
	return s.call(ctx, v, dropBuckets, func(ctx context.Context, timeout time.Duration) error {
		return s.deps.OSCAR.DeleteBucket(ctx, name, as, timeout)
	})
}

var errStillPublic = errors.New("OSCAR says that it took a bucket's rights from all users, and shows it as public")

// keptFrom is why a volume stays, which only its owner's token reaches, when OSCAR does not let him in.
func (s *Services) keptFrom(v *observation) string {
	no := notAllowed(s.session.ID)
	s.session.Log.Warn("the owner is not let in; what is his is left", "service", v.name)
	return fmt.Sprintf("%s: %s", no.reason, no.message)
}

// notDropped notes why a bucket or volume was not deleted, as far as is known.
func (s *Services) notDropped(v *observation, step act, err error) error {
	if api, ok := errors.AsType[*manager.APIError](err); ok && api.Unanswered() {
		s.process.writes.change(v.name, func(n *recent) { n.lateDeleteAt = s.session.Now() })
	}
	return s.noteFailure(v, step, record.ReasonDeleteFailed, err)
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
	definite := errors.Is(err, kube.ErrAbsent) || errors.Is(err, kube.ErrDenied)
	s.failed(v.name, heal, failure{reason: d.reason, message: d.message, definite: definite})
	return false, nil
}
