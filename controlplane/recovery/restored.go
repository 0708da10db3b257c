package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// witnessPause is the least time between two writings of the witness.
const witnessPause = 2 * time.Second

// Recognise compares the store with the witness of this instance. It is called at the start, before
// any decision.
func (c *Controller) Recognise(ctx context.Context) error {
	view := c.state.Mirror.Snapshot()
	seen := c.witnessed()
	kv, ok := view.KV(record.MetaKey)
	if !ok {
		if seen != nil {
			return fmt.Errorf("etcd is empty, but this instance has seen control plane %s in it, up to revision %d: restore a backup, point --etcd-endpoints at the right etcd, or remove %s to begin anew",
				seen.ControlPlane, seen.Revision, c.cfg.Witness)
		}
		return nil
	}
	meta, err := store.Decode[record.Meta](kv)
	if err != nil {
		return err
	}
	found := suspicion{epoch: meta.Epoch}
	if seen != nil {
		if lost := seen.lost(meta, view, c.cfg.Now(), c.cfg.KeepDeleted); lost != "" {
			found = suspicion{why: "it does not have " + lost, epoch: seen.Epoch}
		}
	}
	if c.cfg.Restored {
		found.why = "the operator said so"
	}
	if found.why == "" {
		return nil
	}
	// An etcd that is full is made to take writes again beside this.
	return c.gate.RetryWhileUnavailable(ctx, "the restored store has no new epoch yet", func() error { return c.beginEpoch(ctx, &found) })
}

// witnessed reads the witness. A file that cannot be understood does not stop the start: it is
// written anew.
func (c *Controller) witnessed() *witness {
	if c.cfg.Witness == "" {
		return nil
	}
	seen, err := readWitness(c.cfg.Witness)
	if err != nil {
		c.cfg.Logger.Warn("what was seen of the store before cannot be read; a restore would not be noticed", "file", c.cfg.Witness, "error", err)
	}
	return seen
}

// beginEpoch begins an epoch after that of the suspicion, unless another instance has, and waits until
// the state has it. A store that is restored once more before that may have nothing less than the
// state: no listing tells, and the next try does.
func (c *Controller) beginEpoch(ctx context.Context, found *suspicion) error {
	meta, err := renew(ctx, c.store, *found, c.cfg.Now())
	if err != nil {
		return err
	}
	if found.begun != meta.Epoch {
		found.begun = meta.Epoch
		c.restores.Inc()
		c.cfg.Logger.Warn("the store was restored from an older state; what is ahead of it on the clusters is held: oscarfed describe lists it",
			"why", found.why, "epoch", meta.Epoch, "before", found.epoch)
	}
	v, err := c.store.Read(ctx, record.MetaKey)
	if err != nil {
		return err
	}
	if err := c.state.Wait(ctx, v.Revision); err != nil {
		return err
	}
	shown := false
	c.state.Read(func(v *view.View) { shown = v.Meta != nil && found.settled(v.Meta) })
	if !shown {
		return fmt.Errorf("%w: epoch %s is not seen yet, or the store was restored once more", store.ErrUnavailable, meta.Epoch)
	}
	return nil
}

// suspicion says why the store is taken for restored, and the epoch in which this instance saw what
// the store does not have any more. begun is the epoch that settled it, once there is one.
type suspicion struct{ why, epoch, begun string }

// settled says whether the store has had an epoch since.
func (s *suspicion) settled(meta *record.Meta) bool {
	if s.begun != "" {
		return meta.Epoch == s.begun || slices.Contains(meta.Epochs, s.begun)
	}
	return slices.Contains(meta.Epochs, s.epoch)
}

// Relisted checks each listing of the mirror before the state shows it. When the store was
// restored, no decision is taken and no request answered until it has a new epoch.
func (c *Controller) Relisted(r store.Relist) {
	kv, ok := r.Before.KV(record.MetaKey)
	if !ok {
		return
	}
	before, err := store.Decode[record.Meta](kv)
	if err != nil {
		return
	}
	found := suspicion{epoch: before.Epoch}
	switch now, ok := r.Now.KV(record.MetaKey); {
	case !ok:
		found.why = "it is empty"
	default:
		meta, err := store.Decode[record.Meta](now)
		if err != nil || slices.Contains(meta.Epochs, before.Epoch) || meta.ControlPlane != before.ControlPlane {
			return
		}
		w := attest(before, r.Before)
		if lost := w.lost(meta, r.Now, c.cfg.Now(), c.cfg.KeepDeleted); lost != "" {
			found.why = "it does not have " + lost
		} else if r.Restored {
			found.why = "it has another history than was seen"
		}
	}
	if found.why == "" {
		return
	}
	c.gate.Suspect()
	select { // the newest one counts
	case <-c.suspicions:
	default:
	}
	c.suspicions <- found
}

// watchHistory gives a store that is restored while this instance runs a new epoch, writes each new
// epoch for the clusters, also that of another instance, and keeps the witness.
func (c *Controller) watchHistory(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	told := int64(0)
	for {
		select {
		case <-ctx.Done():
			c.keepWitness()
			return ctx.Err()
		case found := <-c.suspicions:
			c.gate.RetryUntilDone(ctx, "the restored store has no new epoch yet", func() error { return c.resolveSuspicion(ctx, &found) })
			timer.Reset(0)
		case <-c.metaChanged:
			c.gate.RetryUntilDone(ctx, "not every cluster is told the epoch", func() error { return c.tellClustersEpoch(ctx) })
		case <-timer.C:
			timer.Reset(witnessPause)
			if now := c.state.Mirror.Revision(); now != told {
				c.keepWitness()
				told = now
			}
		}
	}
}

// resolveSuspicion gives the store a new epoch.
func (c *Controller) resolveSuspicion(ctx context.Context, found *suspicion) error {
	n := c.gate.Suspicions()
	err := c.beginEpoch(ctx, found)
	if errors.Is(err, gate.ErrNoStore) {
		return errors.New("etcd is empty: restore a backup, or stop every control plane and remove its witness file to begin anew")
	}
	if err != nil {
		return err
	}
	if c.gate.Verify(n) {
		var all []string
		c.state.Read(func(v *view.View) {
			for uid := range v.Federations.All() {
				all = append(all, uid)
			}
		})
		c.federations.Reconcile(all...)
	}
	return nil
}

// tellClustersEpoch writes the epoch for the clusters that do not have it.
func (c *Controller) tellClustersEpoch(ctx context.Context) error {
	var behind []string
	c.state.Read(func(v *view.View) {
		for id, n := range v.Nodes.All() { // those that are being removed, too
			if n.DesiredSelf.Rec != nil && v.Meta != nil && n.DesiredSelf.Rec.Epoch != v.Meta.Epoch {
				behind = append(behind, id)
			}
		}
	})
	slices.Sort(behind)
	return gate.Spread(ctx, c.store, behind)
}

// keepWitness writes the witness from time to time. A restored store is suspected before the mirror
// shows it, so the view is taken before the question.
func (c *Controller) keepWitness() {
	if c.cfg.Witness == "" {
		return
	}
	view := c.state.Mirror.Snapshot()
	if c.gate.Unverified() {
		return
	}
	kv, ok := view.KV(record.MetaKey)
	if !ok {
		return
	}
	meta, err := store.Decode[record.Meta](kv)
	if err == nil {
		w := attest(meta, view)
		err = w.keep(c.cfg.Witness)
	}
	if err != nil {
		c.cfg.Logger.Warn("what was seen of the store was not written down; a restore might not be noticed", "file", c.cfg.Witness, "error", err)
	}
}
