package syncer_test

import (
	"net/http"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestWithoutKubernetesOSCARTellsOfALeftSecret: it refuses to make the service again.
func TestWithoutKubernetesOSCARTellsOfALeftSecret(t *testing.T) {
	told := func(t *testing.T) (*rig, *replica) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		p.secret = "s3cret"
		r.makeReady(p)
		r.fault(oscarsim.OpDelete, oscarsim.FaultCrashSecret, 1)
		if status, err := r.tryAsk(http.MethodDelete, "/system/services/"+p.name, ""); err == nil {
			t.Errorf("answered %d", status)
		}
		r.eventually("it is refused", func() bool {
			log := r.sim.Log()
			last := log[len(log)-1]
			return last.Op == oscarsim.OpCreate && last.Status == http.StatusConflict
		})
		return r, p
	}
	t.Run("it is made again", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := told(t)
			r.eventually("it stands", func() bool { _, stands := r.sim.Service(p.name); return stands })
			r.await(p, record.PhaseReady)
			r.inPlace(p)
			r.secretIs(p)
			r.notNoted(p)
		})
	})
	t.Run("it is deleted", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := told(t)
			r.want(p, record.IntentDelete)
			r.await(p, record.PhaseDeleted)
			r.nothingLeft(p)
		})
	})
	t.Run("one that stood before is of others", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r := newRig(t, oscarsim.Config{})
			r.start()
			p := newReplica("grayify")
			p.secret = "s3cret"
			r.want(p, record.IntentPrepare)
			r.await(p, record.PhasePrepared)
			r.sim.LeftoverSecret(p.name)
			r.want(p, record.IntentApply)
			r.await(p, record.PhaseFailed, because(record.ReasonCreateFailed))
			r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause, d.Spec = record.CauseRollback, "" })
			r.await(p, record.PhaseDeleted)
			if got, _ := r.sim.Secret(p.name); got["leftover"] != "value" {
				t.Errorf("the Secret is %q", got)
			}
		})
	})
}
