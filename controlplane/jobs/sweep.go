package jobs

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// sweepAtOnce is how many jobs one transaction deletes.
const sweepAtOnce = 40

// Sweep deletes jobs that have ended long ago or are too many, with their decisions, and
// repairs reservations that are not the sum of the jobs.
func (c *Controller) Sweep(ctx context.Context) error {
	c.needs.forgetGone(c.state)
	c.state.Read(func(v *view.View) {
		c.seen.Keep(func(key string) bool {
			id, _, _ := strings.Cut(key, "/")
			return v.Jobs.ByID.Has(id) || v.Jobs.Offered.Any(id)
		})
	})
	var ended []endedJob
	c.state.Read(func(v *view.View) { ended = endedJobs(v) })
	old := oldJobs(ended, func(revision int64) bool { return c.gate.Age(revision) > c.cfg.Keep }, c.cfg.KeepAtMost)
	for some := range slices.Chunk(old, sweepAtOnce) {
		if err := c.forgetJobs(ctx, some); err != nil {
			return err
		}
	}
	var kept []view.Versioned[record.Job]
	c.state.Read(func(v *view.View) { kept = uselessEvents(v) })
	for some := range slices.Chunk(kept, sweepAtOnce) {
		if err := c.dropEvents(ctx, some); err != nil {
			return err
		}
	}
	var waiting []string
	c.state.Read(func(v *view.View) { waiting = waitingFound(v, c.cfg.KeepAtMost.OfFederation) })
	c.reconciler.look(waiting...)
	return c.mendReserved(ctx)
}

// uselessEvents lists the failed jobs whose events are kept although they cannot be replayed:
// their federation is gone.
func uselessEvents(v *view.View) (out []view.Versioned[record.Job]) {
	for id := range v.Jobs.Order.IDs() {
		head := v.Jobs.ByID.Head(id)
		if _, there := v.Federations.Lookup(head.Federation); head.State != record.JobFailed || there {
			continue
		}
		if j := v.Jobs.ByID.Get(id); j.Rec.Kept {
			out = append(out, j)
		}
	}
	return out
}

// dropEvents takes the events of failed jobs away.
func (c *Controller) dropEvents(ctx context.Context, jobs []view.Versioned[record.Job]) error {
	var keys []string
	for _, j := range jobs {
		keys = append(keys, record.JobKey(j.Rec.Job))
	}
	_, err := c.store.Update(ctx, store.Update{Keys: keys, Build: func(v store.View, tx *store.Txn) error {
		for i, j := range jobs {
			if kv, ok := v.KV(keys[i]); !ok || kv.ModRevision != j.Rev {
				continue // seen next time
			}
			next := *j.Rec
			next.Kept = false
			tx.Expect(keys[i])
			tx.Put(keys[i], &next)
			tx.Delete(record.EventKey(j.Rec.Job))
		}
		return nil
	}})
	return err
}

// Kept bounds the ended jobs that are kept: the last ones of each federation, of each account, and
// of all.
type Kept struct{ OfFederation, OfAccount, All int }

// endedJob is a job that has ended, at the revision of its record.
type endedJob struct {
	id, federation, account string
	revision                int64
}

// endedJobs are all jobs that have ended, those that were accepted last first.
func endedJobs(v *view.View) (out []endedJob) {
	for p := range v.Jobs.Order.Backward() {
		id := p.ID()
		if h := v.Jobs.ByID.Head(id); h.State.Ended() {
			out = append(out, endedJob{id, h.Federation, h.Account(), h.Revision})
		}
	}
	return out
}

// oldJobs lists, of jobs that have ended, those that ended long ago, and all but the last ones to end: one that
// took long is not forgotten for others that were accepted after it, and ended before it.
func oldJobs(ended []endedJob, old func(revision int64) bool, keep Kept) (out []endedJob) {
	slices.SortStableFunc(ended, func(a, b endedJob) int { return cmp.Compare(b.revision, a.revision) })
	ofFederation, ofAccount, all := map[string]int{}, map[string]int{}, 0
	for _, j := range ended {
		if ofFederation[j.federation] >= keep.OfFederation || ofAccount[j.account] >= keep.OfAccount || all >= keep.All || old(j.revision) {
			out = append(out, j)
			continue
		}
		ofFederation[j.federation]++
		ofAccount[j.account]++
		all++
	}
	return out
}

func (c *Controller) forgetJobs(ctx context.Context, jobs []endedJob) error {
	var keys []string
	for _, j := range jobs {
		keys = append(keys, record.JobKey(j.id))
	}
	res, err := c.store.Update(ctx, store.Update{Keys: keys, Build: func(v store.View, tx *store.Txn) error {
		for i, j := range jobs {
			if kv, ok := v.KV(keys[i]); !ok || kv.ModRevision != j.revision {
				continue // replayed meanwhile, or forgotten
			}
			tx.Expect(keys[i])
			tx.Delete(keys[i])
			tx.Delete(record.EventKey(j.id))
			tx.DeletePrefix(record.DecisionsOf(j.id))
		}
		return nil
	}})
	if err != nil {
		return err
	}
	return c.state.Wait(ctx, res.Revision) // what was found and waits for a record has its place now
}

// mendReserved rewrites reservations that are not the sum of the jobs. They should always be;
// otherwise a cluster would count as full, or as free, for ever.
func (c *Controller) mendReserved(ctx context.Context) error {
	should := map[string][]record.Promise{}
	revs := map[string]int64{}
	c.state.Read(func(v *view.View) {
		should = checkReserved(v)
		for cluster := range should {
			revs[cluster] = v.Jobs.Reserved.Get(cluster).Rev
		}
	})
	for cluster, sum := range should {
		key := record.ReservedKey(cluster)
		mended := false
		_, err := c.store.Update(ctx, store.Update{Keys: []string{key}, Build: func(v store.View, tx *store.Txn) error {
			mended = false
			if kv, _ := v.KV(key); kv.ModRevision != revs[cluster] {
				return nil // another write has changed it; the next sweep checks it
			}
			mended = true
			tx.Expect(key)
			if len(sum) == 0 {
				tx.Delete(key)
				return nil
			}
			tx.Put(key, record.Reserved{V: record.Version, Jobs: sum})
			return nil
		}})
		if err != nil {
			return err
		}
		if mended {
			c.cfg.Logger.Error("what was promised of a cluster was not what its jobs have; it was mended", "cluster", cluster, "promised", describePromises(sum))
		}
	}
	return nil
}
