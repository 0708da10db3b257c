package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// witnessPause is the least time between two writings of the witness.
const witnessPause = 2 * time.Second

// recognise compares the store with what this instance has seen in it before, when it
// starts and nothing has been decided yet.
func (c *ControlPlane) recognise(ctx context.Context) error {
	view := c.mirror.Snapshot()
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
	found := doubt{epoch: meta.Epoch}
	if seen != nil {
		if lost := seen.lost(meta, view, c.cfg.Now(), c.cfg.KeepDeleted); lost != "" {
			found = doubt{"it does not have " + lost, seen.Epoch}
		}
	}
	if c.cfg.Restored {
		found.why = "the operator said so"
	}
	if found.why == "" {
		return nil
	}
	// An etcd that is full is made to take writes again beside this.
	return c.patiently(ctx, "the restored store has no new epoch yet", func() error { return c.beginEpoch(ctx, found) })
}

// witnessed reads the witness. One that cannot be understood is no reason not to
// start: it is written anew.
func (c *ControlPlane) witnessed() *witness {
	if c.cfg.Witness == "" {
		return nil
	}
	seen, err := readWitness(c.cfg.Witness)
	if err != nil {
		c.cfg.Logger.Warn("what was seen of the store before cannot be read; a restore would not be noticed", "file", c.cfg.Witness, "error", err)
	}
	return seen
}

// beginEpoch begins an epoch after that of the doubt, unless somebody has, and waits until
// the state has it.
func (c *ControlPlane) beginEpoch(ctx context.Context, found doubt) error {
	meta, err := renew(ctx, c.store, found.epoch, c.cfg.Now())
	if err != nil {
		return err
	}
	c.restores.Inc()
	c.cfg.Logger.Warn("the store was restored from an older state; what is ahead of it on the clusters is held: oscarfed describe lists it",
		"why", found.why, "epoch", meta.Epoch, "before", found.epoch)
	v, err := c.store.Read(ctx, record.MetaKey)
	if err != nil {
		return err
	}
	return c.state.wait(ctx, v.Revision)
}

// doubt says why the store is taken for restored, and in which epoch it was when what it
// does not have was seen.
type doubt struct{ why, epoch string }

// relisted looks at each listing of the mirror before anybody is shown it. From what
// was restored nothing is decided, and no request is answered, until it has a new
// epoch.
func (c *ControlPlane) relisted(r store.Relist) {
	kv, ok := r.Before.KV(record.MetaKey)
	if !ok {
		return
	}
	before, err := store.Decode[record.Meta](kv)
	if err != nil {
		return
	}
	found := doubt{epoch: before.Epoch}
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
	c.doubts.Add(1)
	select { // the newest one counts
	case <-c.doubt:
	default:
	}
	c.doubt <- found
}

// doubtful says that the store was restored while this instance ran, and has no new
// epoch yet.
func (c *ControlPlane) doubtful() bool { return c.doubts.Load() > 0 }

// watchHistory gives a store that was restored while this instance runs a new epoch,
// tells the clusters of one whoever began it, and keeps the witness.
func (c *ControlPlane) watchHistory(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	told := int64(0)
	for {
		select {
		case <-ctx.Done():
			c.keepWitness()
			return ctx.Err()
		case found := <-c.doubt:
			c.insist(ctx, "the restored store has no new epoch yet", func() error { return c.resolveDoubt(ctx, found) })
			timer.Reset(0)
		case <-c.metaChanged:
			c.insist(ctx, "not every cluster is told the epoch", func() error { return c.tellClusters(ctx) })
		case <-timer.C:
			timer.Reset(witnessPause)
			if now := c.mirror.Revision(); now != told {
				c.keepWitness()
				told = now
			}
		}
	}
}

// patiently is insist for a start: it ends with what no waiting mends.
func (c *ControlPlane) patiently(ctx context.Context, what string, do func() error) error {
	var failed error
	c.insist(ctx, what, func() error {
		err := do()
		if err == nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
			return err
		}
		failed = err
		return nil
	})
	return cmp.Or(failed, ctx.Err())
}

// insist tries until it is done or ctx ends.
func (c *ControlPlane) insist(ctx context.Context, what string, do func() error) {
	pause := 50 * time.Millisecond
	for {
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		c.cfg.Logger.Warn("the store is not settled; it is tried again", "what", what, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, 10*time.Second)
	}
}

// resolveDoubt gives the store a new epoch.
func (c *ControlPlane) resolveDoubt(ctx context.Context, found doubt) error {
	doubts := c.doubts.Load()
	err := c.beginEpoch(ctx, found)
	if errors.Is(err, ErrNoStore) {
		return errors.New("etcd is empty: restore a backup, or stop every control plane and remove its witness file to begin anew")
	}
	if err != nil {
		return err
	}
	if c.doubts.CompareAndSwap(doubts, 0) {
		var all []string
		c.state.read(func(v *View) {
			for uid := range v.federations {
				all = append(all, uid)
			}
		})
		c.decider.touched(all, nil)
	}
	return nil
}

// tellClusters brings the epoch to those clusters that do not have it.
func (c *ControlPlane) tellClusters(ctx context.Context) error {
	var behind []string
	c.state.read(func(v *View) {
		for id, n := range v.nodes { // those that are being removed, too
			if n.desiredSelf.rec != nil && v.meta != nil && n.desiredSelf.rec.Epoch != v.meta.Epoch {
				behind = append(behind, id)
			}
		}
	})
	slices.Sort(behind)
	return spread(ctx, c.store, behind)
}

// keepWitness writes down what is known to be committed.
func (c *ControlPlane) keepWitness() {
	if c.cfg.Witness == "" || c.doubtful() {
		return
	}
	view := c.mirror.Snapshot()
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
