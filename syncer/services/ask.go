package services

import (
	"context"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
)

// Question is a service that the cluster may be given. No record says anything about it.
type Question struct {
	Name, Owner string
	Definition  *definition.Definition
	// SecretLeft says that an earlier life has left the Secret of its name.
	SecretLeft bool
	// Token is the owner's own; empty for the administrator's service.
	Token manager.Bearer
}

// Opinion is what the cluster would vote now.
type Opinion struct {
	// Reason and Message say why not; empty for a yes.
	Reason  record.Reason
	Message string
	// Delay is what the writes before the service's will take.
	Delay time.Duration
}

// CannotTellError says why the cluster votes on nothing now. It holds no secret.
type CannotTellError struct{ Message string }

// Error implements error.
func (e *CannotTellError) Error() string { return e.Message }

// Ask checks a service as a vote does. It writes nothing and promises nothing. An error says that the
// cluster cannot tell; one that may be told to others is a *CannotTellError.
func (s *Services) Ask(ctx context.Context, q Question) (Opinion, error) {
	view := s.session.Mirror.Snapshot()
	standing, err := s.session.Standing(view.KV(record.DesiredClusterKey(s.session.ID)))
	if err != nil {
		return Opinion{}, err
	}
	switch {
	case standing.Stopped:
		return Opinion{}, &CannotTellError{"the cluster is paused"}
	case standing.Restored:
		return Opinion{}, &CannotTellError{"etcd was restored from a backup, and the cluster waits for the control plane"}
	}
	v := &observation{name: q.Name, def: q.Definition, asOf: s.NewEnough(q.Name, s.session.Now(), listAge)}
	v.now = s.session.Now()
	// A life that is nowhere: whatever stands under the name is not ours.
	v.desired = &record.Desired{Intent: record.IntentPrepare, Owner: q.Owner, UID: record.NewUID(), SecretLeft: q.SecretLeft}
	if definition.UsersService(v.desired) {
		if q.Token == "" {
			return Opinion{}, &CannotTellError{"a user's service is asked about with his own access token alone"}
		}
		v.token.needed, v.as = true, ownertoken.AccessToken{Value: q.Token}
	}
	if v.list, _, err = s.deps.Answers.Lists.Get(ctx, v.asOf); err == nil {
		v.service = v.list.Services[q.Name]
		v.local = localOf(v.service, v.desired)
		var no *refusal
		if no, err = s.check(ctx, v); err == nil && no != nil {
			return Opinion{Reason: no.reason, Message: no.message}, nil
		}
	}
	if c, known := answers.ConditionOf(err); known {
		message := manager.Scrub(c.Message, v.secrets()...)
		if c.Lasting && s.deps.Answers.Health.Lasts() {
			return Opinion{Reason: c.Reason, Message: message}, nil
		}
		return Opinion{}, &CannotTellError{message}
	}
	return Opinion{Delay: s.process.forecast.before(q.Name, s.outstanding(view), s.session.Now())}, err
}
