package services

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/oscarfed/oscarfed/store/record"
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
	measured, updated := false, false
	s.writing.Store(true)
	defer s.writing.Store(false)
	defer s.leaveDoubt()
	s.process.forecast.begin(s.session.Now())
	defer func() { s.process.forecast.end(s.session.Now(), measured, s.cfg.WriteTimeout) }()
	for range maxSteps {
		if !s.session.Leads() {
			return false, session.ErrNotLeading // without asking OSCAR in vain
		}
		v, err := s.examine(ctx, name)
		if err != nil {
			return false, s.blocked(ctx, v, err)
		}
		v.updated = updated
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
		updated = answered && d.act == update || updated && (d.act == start || d.act == stop)
		if ctx.Err() != nil {
			if answered && d.act == erase {
				s.tellErased(ctx, v)
			}
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
		if err := s.report(ctx, v, finding{phase: record.PhaseDrifted, reason: record.ReasonDrifted, message: d.message, remade: d.act == create}); err != nil {
			return false, err
		}
		// The report has moved nothing that the fence looks at.
	}
	switch d.act {
	case create:
		return s.create(ctx, v)
	case update:
		return s.update(ctx, v, d.repair)
	case register:
		return s.register(ctx, v)
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
	case sweep:
		return s.sweep(ctx, v)
	case release:
		return s.release(ctx, v)
	case start, stop:
		return s.setRunState(ctx, v, d)
	}
	return false, fmt.Errorf("step %s is no write", d.act)
}

// fence is the last check before a write: the Lease is ours, the observation is recent
// enough and the session is ours, all by our own clock. That the last two were so in
// etcd was read last of all when it was made.
func (s *Services) fence(v *observation) error {
	if !v.fresh {
		return fmt.Errorf("%w: it was not read for a write", session.ErrStale)
	}
	if err := s.enterDoubt(v.name); err != nil {
		return err
	}
	return s.session.Writable(v.until)
}

// call sends one write. It is not cut off when the session ends, since half a write
// is of no use, but for StopGrace.
func (s *Services) call(ctx context.Context, v *observation, step act, send func(context.Context, time.Duration) error) error {
	timeout := s.timeout(v)
	sending, release := session.Outlive(ctx, s.cfg.StopGrace)
	defer release()
	sending, cancel := context.WithTimeout(sending, timeout+time.Second)
	defer cancel()
	began := s.session.Now()
	sending, end := s.cfg.Tracer.Continue(sending, requestOf(v), "service "+step.String(), attribute.String("service", v.name))
	err := send(sending, timeout)
	end(err)
	s.process.writes.change(v.name, func(n *recent) { n.written = s.session.Now() })
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
		"status", manager.StatusOf(err), "seconds", s.session.Now().Sub(began).Seconds(), "request_id", requestOf(v))
	return err
}

// requestOf is the id of the request that an observation's desired record was written for.
func requestOf(v *observation) string {
	if v.desired == nil {
		return ""
	}
	return v.desired.RequestID
}

// prefetchTimeout ends a write of a service with image_prefetch.
const prefetchTimeout = 400 * time.Second

// timeout of a write: a POST waits until images are fetched, when that is asked.
func (s *Services) timeout(v *observation) time.Duration {
	if v.def != nil && v.def.Service.ImagePrefetch {
		return prefetchTimeout
	}
	return s.cfg.WriteTimeout
}
