package services

import (
	"context"
	"errors"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// slowVote is after which time without an answer of OSCAR an open vote is explained.
const slowVote = 2 * time.Second

// explainSlowness tells, beside a vote that is open for so long, what it waits for. The
// caller ends it.
func (s *Services) explainSlowness(ctx context.Context, name string) (end func()) {
	if d := s.session.Desired(name); d == nil || d.Intent != record.IntentPrepare {
		return func() {}
	}
	done := make(chan struct{})
	timer := time.AfterFunc(slowVote, func() {
		defer close(done)
		op, silent := s.deps.Answers.Silent(s.session.Now().Add(-slowVote / 2))
		if !silent {
			return
		}
		s.deps.Answers.Health.Failed(op, answers.Hangs(op))
		v, err := s.recall(name)
		if err == nil && v.openVote() {
			err = s.explain(ctx, v, answers.Hangs(op))
		}
		if err != nil && ctx.Err() == nil {
			s.session.Log.Warn("what a vote waits for was not reported", "service", name, "error", err)
		}
	})
	return func() {
		if !timer.Stop() {
			<-done
		}
	}
}

// openVote says that a vote is asked for and not given.
func (v *observation) openVote() bool {
	return v.desired != nil && v.desired.Intent == record.IntentPrepare && v.observed.VoteOn(v.revision) == nil
}

// explain reports, beside an open vote, why it cannot be given yet. It is no vote.
func (s *Services) explain(ctx context.Context, v *observation, c answers.Condition) error {
	return s.report(ctx, v, finding{phase: record.PhasePending, reason: c.Reason, message: manager.Scrub(c.Message, v.secrets()...), beside: true})
}

// explainAfter is after how many tries in vain, with growing pauses, an open vote is
// explained: about a second and a half.
const explainAfter = 3

// cannotVote deals with a vote that OSCAR keeps us from. What waiting does not mend is a
// no; anything else is told beside the vote, and tried again.
func (s *Services) cannotVote(ctx context.Context, v *observation, c answers.Condition, err error) error {
	switch {
	case !v.openVote():
		return err
	case c.Lasting && s.deps.Answers.Health.Lasts():
		return s.cast(ctx, v, &refusal{c.Reason, c.Message})
	case s.retries.NumRequeues(v.name) >= explainAfter:
		return errors.Join(err, s.explain(ctx, v, c))
	}
	return err
}
