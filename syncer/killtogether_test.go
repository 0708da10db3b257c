package syncer_test

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestASyncerAndItsOSCARKilledInTheSameMoment: the power of a site fails in the middle
// of a write. All or nothing, and the same request works afterwards.
func TestASyncerAndItsOSCARKilledInTheSameMoment(t *testing.T) {
	for point, op := range map[string]oscarsim.Op{
		"syncer.after_create": oscarsim.OpCreate, "syncer.after_detach": oscarsim.OpUpdate, "syncer.after_erase": oscarsim.OpDelete,
	} {
		t.Run(point, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Latency: 20 * time.Millisecond})
				died := r.startDying(point)
				p := newReplica("grayify")
				r.want(p, record.IntentPrepare)
				r.await(p, record.PhasePrepared)
				if op != oscarsim.OpCreate {
					r.want(p, record.IntentApply)
					r.await(p, record.PhaseReady)
				}
				r.fault(op, oscarsim.FaultCrash, 1)
				if op == oscarsim.OpCreate {
					r.want(p, record.IntentApply)
				} else {
					r.want(p, record.IntentDelete)
				}
				<-died
				r.sim.Kill()
				// Another syncer goes on.
				if op == oscarsim.OpCreate { // its OSCAR made half of it
					r.await(p, record.PhaseFailed, because(record.ReasonCreateFailed))
					r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
				}
				o := r.await(p, record.PhaseDeleted)
				if _, stands := r.sim.Service(p.name); stands {
					t.Error("its deletion is acknowledged and it stands")
				}
				r.forget(p)
				again := newReplica("grayify")
				again.left = o.BucketsMade
				r.makeReady(again)
				r.inPlace(again)
			})
		})
	}
}
