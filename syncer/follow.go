package syncer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// follow turns changes of the mirror into work.
func (r *sessionRun) follow(ctx context.Context) error {
	feed := r.session.Mirror.Feed()
	defer feed.Close()
	for {
		keys, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		view := r.session.Mirror.Snapshot()
		r.services.Mirrored(view)
		for _, key := range keys {
			switch ref := record.ParseKey(key); ref.Kind {
			case record.KindDesiredService:
				if word := record.Strange(session.DesiredIn(view, key)); word != "" {
					r.session.Log.Error("a newer control plane asks for what this syncer does not know; the service is left as it is", "service", ref.Name, "word", word)
				}
				r.services.DesiredChanged(view, ref.Name)
				r.tokens.ReconcileServed(view, ref.Name)
				r.jobs.ServiceChanged(ref.Name)
				r.offers.ServiceChanged(ref.Name)
			case record.KindAssignment:
				r.jobs.Changed(ref)
			case record.KindOffer, record.KindOfferAnswer:
				r.offers.Changed(view, ref.Name)
			case record.KindHold, record.KindHolding, record.KindTokenAsk, record.KindGranted, record.KindWant, record.KindGrant:
				r.tokens.Changed(ref.Name)
			case record.KindObservedService, record.KindAsk:
				r.services.Changed(ref.Name)
				r.jobs.ServiceChanged(ref.Name)
			case record.KindTokens:
				r.tokens.Delivered(view, ref.Name)
			case record.KindDesiredCluster:
				r.noteEpoch(view)
				for kv := range view.Prefix(record.DesiredServicesPrefix(r.session.ID)) {
					r.services.Changed(record.ParseKey(kv.Key).Name)
				}
				r.tokens.ReconcileAll(view)
				r.jobs.ClusterChanged()
				r.offers.All(view)
			}
		}
	}
}

// noteEpoch tells when the store is of another control plane. What stands here then
// is held: it has marks that no desired record has. It ends the session when the registration
// is not the one that we are for, or not any more.
func (r *sessionRun) noteEpoch(view *store.MirrorView) {
	c, err := r.session.Serves(view.KV(record.DesiredClusterKey(r.session.ID)))
	switch {
	case errors.Is(err, session.ErrNotRegistered), errors.Is(err, session.ErrOtherCluster), errors.Is(err, session.ErrOutdated):
		r.session.Lose(err)
		return
	case err != nil:
		r.session.Log.Error("desired cluster cannot be read", "error", err)
		return
	}
	if before := r.syncer.registration.Swap(c); before != nil && (before.ControlPlane != c.ControlPlane || before.Epoch != c.Epoch) {
		r.session.Log.Warn("registration of the cluster has changed", "cluster_uid", c.UID, "control_plane", c.ControlPlane, "epoch", c.Epoch)
		r.session.Compare.Send()
	}
}

// resyncs compares everything now and then, with one list, and at once when the
// store was restored, or OSCAR answers again. For the first one any list of the session is new
// enough, so that it shares that of the first decisions.
func (r *sessionRun) resyncs(ctx context.Context) error {
	for before, began := r.first, r.session.Started; ; before, began = r.session.Mirror.Snapshot(), r.session.Now() {
		if err := r.resync(ctx, before, began); err != nil && ctx.Err() == nil {
			r.session.Log.Warn("full compare not possible", "error", err)
		}
		jitter := 0.9 + 0.2*rand.Float64() //nolint:gosec // spreads load
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.session.Compare:
		case <-time.After(time.Duration(float64(r.syncer.cfg.Resync) * jitter)):
		}
	}
}

// resync compares everything with a list that was begun at a time, or later. before is a view from
// before any such list.
func (r *sessionRun) resync(ctx context.Context, before *store.MirrorView, began time.Time) error {
	list, _, err := r.answers.Lists.Get(ctx, began)
	view := r.session.Mirror.Snapshot()
	r.services.Resync(view, began)
	r.tokens.ForgetNeeds(began.Add(-3 * r.syncer.cfg.Resync))
	r.tokens.ReconcileAll(view)
	r.offers.All(view)
	r.origins.ForgetKeys(view)
	// A report of the cluster follows one of what it has free, where that can be told.
	select {
	case <-r.status.FirstMeasured():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return r.status.ReportCluster(ctx, before, view, list, err)
}
