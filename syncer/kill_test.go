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
			for disk, next := range map[string]func(*world.Disk) *world.Disk{
				"":                    func(left *world.Disk) *world.Disk { return left },
				" on another machine": func(*world.Disk) *world.Disk { return &world.Disk{} },
			} {
				t.Run(point+disk, func(t *testing.T) {
					killedAt(t, point, next, func() {
						mu.Lock()
						defer mu.Unlock()
						hit[point] = true
					})
				})
			}
		}
	})
	if len(hit) != len(syncer.FailPoints()) {
		t.Errorf("the syncer died at %d of %d fail points", len(hit), len(syncer.FailPoints()))
	}
}

// killedAt is one kill; next gives the disk of the successor, and hit is called when the syncer has died.
func killedAt(t *testing.T, point string, next func(*world.Disk) *world.Disk, hit func()) {
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
		died := r.startDyingOn(point, next)
		p := newReplica("grayify")
		p.buckets = []string{"grayify", "grayify-new"}
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		r.inPlace(p)
		if strings.HasSuffix(point, "_release") {
			r.releasedAfter(p, died)
			hit()
			return
		}
		r.want(p, record.IntentDelete, order)
		o := r.await(p, record.PhaseDeleted)
		if !slices.Equal(o.BucketsMade, made) {
			t.Errorf("buckets left by this life: %v, want %v", o.BucketsMade, made)
		}
		<-died
		hit()
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
}

// startDying runs a syncer that dies at a fail point as by SIGKILL, and then one on another machine that does
// not. The answer is closed when the first one has died.
func (r *rig) startDying(point string) <-chan struct{} {
	r.t.Helper()
	return r.startDyingOn(point, func(*world.Disk) *world.Disk { return &world.Disk{} })
}

// startDyingOn is startDying where the second syncer has the disk that next makes of that of the first.
func (r *rig) startDyingOn(point string, next func(*world.Disk) *world.Disk) <-chan struct{} {
	r.t.Helper()
	died := make(chan struct{})
	cfg, after, disk := r.config("syncer"), r.config("successor"), &world.Disk{}
	cfg.InDoubt = disk
	cfg.FailPoints = failpoint.At(point, func() {
		after.InDoubt = next(disk.Successor())
		r.net.Host("syncer").Kill()
		close(died)
	})
	dying := world.Must(syncer.New(cfg))(r.t)
	r.run("the successor", func(ctx context.Context) error {
		first := world.Go(ctx, dying.Run)
		select {
		case <-died:
		case <-ctx.Done():
			r.t.Errorf("it did not die at %s", point)
		}
		_ = first.Stop() // it is dead
		successor, err := syncer.New(after)
		if err != nil {
			return err
		}
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
