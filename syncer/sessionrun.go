package syncer

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/jobs"
	"github.com/oscarfed/oscarfed/syncer/offers"
	"github.com/oscarfed/oscarfed/syncer/originstorage"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
	"github.com/oscarfed/oscarfed/syncer/services"
	"github.com/oscarfed/oscarfed/syncer/session"
	"github.com/oscarfed/oscarfed/syncer/status"
)

// sessionRun is the work within one session.
type sessionRun struct {
	syncer  *Syncer
	session *session.Session
	// first is a view from before anything was asked of OSCAR.
	first    *store.MirrorView
	answers  *answers.Answers
	tokens   *ownertoken.Tokens
	origins  *originstorage.Watch
	jobs     *jobs.Jobs
	counts   *jobs.Counts
	services *services.Services
	offers   *offers.Offers
	status   *status.Status
}

// run works in a session until ctx ends.
func (s *Syncer) run(ctx context.Context, now *session.Session) error {
	// From this revision on, no other syncer has written to our OSCAR.
	if err := now.Mirror.Wait(ctx, now.Lease.CreateRevision()); err != nil {
		return err
	}
	view := now.Mirror.Snapshot()
	if _, err := now.Serves(view.KV(record.DesiredClusterKey(now.ID))); err != nil {
		return err
	}
	if err := s.services.Begin(ctx, now, view); err != nil {
		return err
	}
	r := s.newRun(ctx, now)
	r.first = view
	defer r.answers.Wait()
	s.setReady(true)
	defer s.setReady(false)
	defer s.tokens.Begin(r.tokens)()
	return r.run(ctx)
}

// newRun makes the parts of a session. It starts nothing; calls that parts share end with
// ctx.
func (s *Syncer) newRun(ctx context.Context, now *session.Session) *sessionRun {
	cfg, r := s.cfg, &sessionRun{syncer: s, session: now}
	r.answers = answers.New(ctx, now, cfg.OSCAR, cfg.Kube, func() {
		s.services.ForgiveSilence()
		now.Log.Info("the cluster can be worked on again")
		now.Compare.Send()
	})
	r.tokens = ownertoken.New(now, s.tokens, func(view *store.MirrorView, federation string) {
		r.services.TokenArrived(view, federation)
	})
	r.origins = originstorage.NewWatch(ctx, now, s.origins, cfg.OriginLook, func(service string) bool { return r.jobs.Unfinished(service) > 0 })
	lister := jobs.NewLister(now, r.answers, cfg.Kube, cfg.OSCAR)
	r.counts = jobs.NewCounts(now, lister, func(service string) { r.services.Changed(service) })
	r.jobs = jobs.New(now, lister, cfg.jobs(), jobs.Deps{
		OSCAR: cfg.OSCAR, Kube: cfg.Kube, Answers: r.answers, Definitions: s.definitions, Tokens: r.tokens,
		Keys: s.origins, Origins: r.origins, Events: s.events, Metrics: s.jobMetrics, Process: &s.jobs,
	})
	r.services = services.New(now, s.services, cfg.services(), services.Deps{
		OSCAR: cfg.OSCAR, Kube: cfg.Kube, Answers: r.answers, Definitions: s.definitions, Tokens: r.tokens,
		Origins: r.origins, Jobs: r.jobs, Counts: r.counts,
	})
	r.offers = offers.New(now, offers.Config{Keep: cfg.KeepJobs, After: cfg.RescheduleAfter}, cfg.Kube, s.offerMetrics)
	r.status = status.New(now, cfg.status(), r.answers, cfg.OSCAR, cfg.Kube, r.services, s.metrics.orphans)
	return r
}

// run ends with ctx, or with the first part that fails. The write under way is finished first.
func (r *sessionRun) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.follow(ctx) })
	group.Go(func() error { return r.resyncs(ctx) })
	group.Go(func() error { return r.jobs.Run(ctx) })
	parts := []func(context.Context){r.services.Run, r.status.Run, r.counts.Run, r.offers.Run, r.origins.Run, r.tokens.Run}
	if relay := r.syncer.cfg.Relay; relay != nil {
		parts = append(parts, func(ctx context.Context) {
			relay.Run(ctx, site{session: r.session, answers: r.answers, services: r.services, oscar: r.syncer.cfg.OSCAR})
		})
	}
	for _, run := range parts {
		group.Go(func() error { run(ctx); return nil })
	}
	err := group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
