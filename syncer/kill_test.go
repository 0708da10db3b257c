package syncer_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/failpoint"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestKilledAtEveryFailPoint kills the syncer at each point of a
// creation that attaches, and of the deletion, or release, after it. Its successor finishes
// the work: all or nothing, nothing foreign touched, no data lost, and the same
// request works afterwards.
func TestKilledAtEveryFailPoint(t *testing.T) {
	var mu sync.Mutex
	hit := map[string]bool{}
	t.Run("points", func(t *testing.T) {
		for _, point := range syncer.FailPoints() {
			t.Run(point, func(t *testing.T) {
				await.InVirtualTime(t, func(t *testing.T) {
					r := newRig(t, oscarsim.Config{Latency: 20 * time.Millisecond})
					// Buckets go only when that is ordered, and then only those of this life.
					order, made := func(d *record.Desired) { d.Cause = record.CauseRollback }, []string{"grayify-new"}
					if strings.HasSuffix(point, "_drop") {
						order, made = func(d *record.Desired) { d.Cause, d.Data = record.CauseDeleted, "delete" }, []string{}
					} else {
						r.leave("grayify", "grayify")
						r.watchBucketData("grayify")
					}
					died := r.startDying(point)
					p := newReplica("grayify")
					p.buckets = []string{"grayify", "grayify-new"}
					r.want(p, record.IntentPrepare)
					r.await(p, record.PhasePrepared)
					r.want(p, record.IntentApply)
					r.await(p, record.PhaseReady)
					r.inPlace(p)
					if strings.HasSuffix(point, "_release") {
						r.releasedAfter(p, died)
						mu.Lock()
						hit[point] = true
						mu.Unlock()
						return
					}
					r.want(p, record.IntentDelete, order)
					o := r.await(p, record.PhaseDeleted)
					if !slices.Equal(o.BucketsMade, made) {
						t.Errorf("buckets left by this life: %v, want %v", o.BucketsMade, made)
					}
					<-died
					mu.Lock()
					hit[point] = true
					mu.Unlock()
					r.resynced()
					for _, name := range p.buckets {
						if _, stands := r.sim.Bucket(name); stands == strings.HasSuffix(point, "_drop") {
							t.Errorf("bucket %s stands: %t", name, stands)
						}
					}
					if slices.Contains(r.sim.Services(), p.name) {
						t.Error("the service is still there")
					}
					if len(r.cluster().Orphans) != 0 {
						t.Errorf("orphans: %v", r.cluster().Orphans)
					}
					r.forget(p)
					again := newReplica("grayify")
					again.buckets, again.left = p.buckets, o.BucketsMade
					r.makeReady(again)
					r.inPlace(again)
				})
			})
		}
	})
	if len(hit) != len(syncer.FailPoints()) {
		t.Errorf("the syncer died at %d of %d fail points", len(hit), len(syncer.FailPoints()))
	}
}

// startDying runs a syncer that dies at a fail point as by SIGKILL, and then one that does
// not. The answer is closed when the first one has died.
func (r *rig) startDying(point string) <-chan struct{} {
	r.t.Helper()
	died := make(chan struct{})
	cfg := r.config("syncer")
	cfg.FailPoints = failpoint.At(point, func() {
		r.net.Host("syncer").Kill()
		close(died)
	})
	dying := world.Must(syncer.New(cfg))(r.t)
	successor := world.Must(syncer.New(r.config("successor")))(r.t)
	r.run("the successor", func(ctx context.Context) error {
		first := world.Go(ctx, dying.Run)
		select {
		case <-died:
		case <-ctx.Done():
			r.t.Errorf("it did not die at %s", point)
		}
		_ = first.Stop() // it is dead
		return successor.Run(ctx)
	})
	return died
}

// TestABucketIsNotForgottenThatWasNeverReported: its service was made and not reported, and the syncer that deletes it
// dies. What said that this life made the bucket went with the service.
func TestABucketIsNotForgottenThatWasNeverReported(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Latency: time.Second})
		stop := r.start()
		p := newReplica("grayify")
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		asked := r.sim.Next(oscarsim.OpCreate)
		r.want(p, record.IntentApply)
		<-asked
		r.fault(oscarsim.OpGet, oscarsim.Fault500, 0)
		r.eventually("the bucket is made", func() bool { _, ok := r.sim.Bucket("grayify"); return ok })
		stop()
		r.sim.ClearFaults()
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Data = record.DataDelete })
		<-r.startDying("syncer.after_erase")
		if got := fatesOf(r.await(p, record.PhaseDeleted)); got != "grayify deleted" {
			t.Errorf("told: %q", got)
		}
		if _, ok := r.sim.Bucket("grayify"); ok {
			t.Error("the bucket is still there")
		}
	})
}
