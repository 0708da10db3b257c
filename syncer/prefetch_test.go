package syncer_test

import (
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestAServiceIsDeletedWhoseImageCannotBePrefetched: OSCAR waits for the image for ever, and puts the old definition back
// when it is to prefetch another time.
func TestAServiceIsDeletedWhoseImageCannotBePrefetched(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		p.extra = map[string]any{"image_prefetch": true}
		r.sim.SetMissingImage(p.image)
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.want(p, record.IntentApply)
		r.eventually("OSCAR lists it", func() bool { _, ok := r.sim.Service(p.name); return ok })
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
		r.await(p, record.PhaseDeleted)
		if _, ok := r.sim.Service(p.name); ok {
			t.Error("the service is still there")
		}

		// Nobody has deleted what pulls the image: OSCAR refuses to prefetch under that name again.
		r.forget(p)
		again := newReplica("grayify")
		again.extra = p.extra
		r.want(again, record.IntentPrepare)
		r.await(again, record.PhasePrepared)
		r.want(again, record.IntentApply)
		o := r.await(again, record.PhaseFailed)
		if !strings.Contains(o.Message, "image-puller-grayify") {
			t.Errorf("told: %s", o.Message)
		}
		r.want(again, record.IntentDelete)
		r.await(again, record.PhaseDeleted)
		r.forget(again)
		r.makeReady(newReplica("grayify"))
	})
}
