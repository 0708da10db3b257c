package syncer_test

import (
	"net/http"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestTheNextLifeOverwritesALeftSecret: its owner's token was over when his creation was taken back.
func TestTheNextLifeOverwritesALeftSecret(t *testing.T) {
	begin := func(t *testing.T) (r *rig, next *replica, stop func(), secret func() string) {
		r, p, i := newUser(t)
		r.deliver(i.Token(alice, nil), inAnHour())
		stop = r.start(withSecrets(r))
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.fault(oscarsim.OpCreate, oscarsim.FaultCrashSecret, 1)
		r.want(p, record.IntentApply)
		r.eventually("it was posted", func() bool { return len(r.sim.State().Secrets) > 0 })
		r.forgetToken()
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
		if o := r.await(p, record.PhaseDeleted); !o.SecretLeft {
			t.Fatalf("report %+v", o)
		}
		r.forget(p)
		r.deliver(i.Token(alice, nil), inAnHour())
		next = newReplica(p.name)
		next.owner, next.secretLeft = p.owner, true
		return r, next, stop, func() string {
			for _, s := range r.sim.State().Secrets {
				return s["KEY"]
			}
			return ""
		}
	}
	deleted := func(t *testing.T, r *rig, p *replica, left bool) {
		t.Helper()
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
		if o := r.await(p, record.PhaseDeleted); o.SecretLeft != left || len(r.sim.State().Secrets) > 0 != left {
			t.Errorf("%d Secrets, report %+v", len(r.sim.State().Secrets), o)
		}
	}
	t.Run("it is made", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, next, _, secret := begin(t)
			r.makeReady(next)
			r.inPlace(next)
			if got := secret(); got != next.secret {
				t.Errorf("the Secret is %q", got)
			}
			deleted(t, r, next, false)
		})
	})
	t.Run("its POST fails, and the syncer is started again", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, next, stop, _ := begin(t)
			r.want(next, record.IntentPrepare)
			r.await(next, record.PhasePrepared)
			r.fault(oscarsim.OpCreate, oscarsim.FaultRefuse, 0)
			r.want(next, record.IntentApply)
			r.eventually("it is noted", func() bool { o := r.observed(next.name); return o != nil && o.Bare != "" })
			stop()
			r.fault(oscarsim.OpCreate, "", 0)
			r.start(withSecrets(r))
			deleted(t, r, next, false)
		})
	})
	t.Run("it is taken back before its POST", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, next, _, _ := begin(t)
			r.want(next, record.IntentPrepare)
			r.await(next, record.PhasePrepared)
			deleted(t, r, next, true)
		})
	})
	t.Run("it stood, and a syncer that has not seen it deletes it", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, next, stop, _ := begin(t)
			r.makeReady(next)
			stop()
			r.fault(oscarsim.OpDelete, oscarsim.FaultCrashSecret, 1)
			if status, err := r.tryAsk(http.MethodDelete, "/system/services/"+next.name, ""); err == nil {
				t.Errorf("answered %d", status)
			}
			r.want(next, record.IntentDelete)
			r.start(withSecrets(r))
			// The tombstone has no definition, and so no token to know its service by.
			if o := r.await(next, record.PhaseDeleted); !o.SecretLeft || len(r.sim.State().Secrets) == 0 {
				t.Errorf("%d Secrets, report %+v", len(r.sim.State().Secrets), o)
			}
		})
	})
}
