package syncer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestAMemberWhoseOSCARDiedBeforeTheWebhookHasOne: OSCAR shows no webhook, but the buckets that it makes after it. Where
// none shows, it is registered once, also when the syncer dies with its OSCAR, or in between.
func TestAMemberWhoseOSCARDiedBeforeTheWebhookHasOne(t *testing.T) {
	for _, tc := range []struct {
		name, fault, point string
		calls              []string
	}{
		{"OSCAR dies", oscarsim.FaultCrash, "", []string{"create", "update", "update"}},
		{"OSCAR is late", oscarsim.FaultLate, "", []string{"create"}},
		{"OSCAR answers 500", oscarsim.Fault500After, "", []string{"create"}},
		{"OSCAR did nothing", oscarsim.Fault500, "", []string{"create", "create"}},
		{"both die", oscarsim.FaultCrash, "syncer.after_create", []string{"create", "update", "update"}},
		{"the syncer dies before it registers", oscarsim.FaultCrash, "syncer.before_update", []string{"create", "update", "update"}},
		{"the syncer dies after it registered", oscarsim.FaultCrash, "syncer.after_update", []string{"create", "update", "update"}},
		{"the syncer dies before its report", oscarsim.FaultCrash, "syncer.before_ready", []string{"create", "update", "update"}},
		{"the syncer alone dies", "", "syncer.after_create", []string{"create"}},
		{"nothing dies", "", "", []string{"create"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				if tc.point == "" {
					r.start()
				} else {
					r.startDying(tc.point)
				}
				p := newReplica("worker")
				p.coordinator = false
				r.want(p, record.IntentPrepare)
				r.await(p, record.PhasePrepared)
				if tc.fault != "" {
					r.fault(oscarsim.OpCreate, tc.fault, 1)
				}
				r.want(p, record.IntentApply)
				began := time.Now()
				r.await(p, record.PhaseReady)
				// It is left to the POST, which may still be at work, for so long.
				if waited := time.Since(began); slices.Contains(tc.calls, "update") && waited < 15*time.Second {
					t.Errorf("ready after %s", waited)
				}
				r.resynced()
				r.inPlace(p)
				if v, _ := r.sim.Service(p.name); !v.Registered || v.Webhook != p.token {
					t.Errorf("webhook registered %t, ours %t", v.Registered, v.Webhook == p.token)
				}
				if b, made := r.sim.Bucket(p.name); made && !slices.Equal(b.Notifies, []string{p.name}) {
					t.Errorf("uploads start jobs of %v", b.Notifies)
				}
				r.equalCalls(p.name, tc.calls...)
			})
		})
	}
}

// TestAMemberThatIsMadeAgainWhenBothDieHasItsWebhook: OSCAR died in the POST of a repair, and the syncer with it. So it is
// with a POST after three that have failed.
func TestAMemberThatIsMadeAgainWhenBothDieHasItsWebhook(t *testing.T) {
	begin := func(t *testing.T) (*rig, *replica) {
		r := newRig(t, oscarsim.Config{})
		p := newReplica("worker")
		p.coordinator = false
		return r, p
	}
	standsWhole := func(r *rig, p *replica) {
		r.t.Helper()
		r.resynced()
		r.await(p, record.PhaseReady)
		r.inPlace(p)
		if v, _ := r.sim.Service(p.name); !v.Registered || v.Webhook != p.token {
			r.t.Errorf("webhook registered %t, ours %t", v.Registered, v.Webhook == p.token)
		}
	}
	t.Run("a repair", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := begin(t)
			stop := r.start()
			r.makeReady(p)
			stop()
			r.sim.RemoveService(p.name)
			r.fault(oscarsim.OpCreate, oscarsim.FaultCrash, 1)
			<-r.startDying("syncer.after_create")
			standsWhole(r, p)
		})
	})
	t.Run("after three failures", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := begin(t)
			stop := r.start()
			r.want(p, record.IntentPrepare)
			r.await(p, record.PhasePrepared)
			r.fault(oscarsim.OpCreate, oscarsim.Fault500, 0)
			r.want(p, record.IntentApply)
			r.await(p, record.PhaseFailed)
			stop()
			r.sim.ClearFaults()
			r.fault(oscarsim.OpCreate, oscarsim.FaultCrash, 1)
			<-r.startDying("syncer.after_create")
			standsWhole(r, p)
		})
	})
}

// TestAnOSCARThatKeepsDyingIsNotAskedForEver: each try to register the webhook ends without an answer.
func TestAnOSCARThatKeepsDyingIsNotAskedForEver(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start(func(c *syncer.Config) { c.Resync = never })
		p := newReplica("worker")
		p.coordinator = false
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.fault(oscarsim.OpCreate, oscarsim.FaultCrash, 1)
		r.fault(oscarsim.OpUpdate, oscarsim.FaultCrash, 0)
		r.want(p, record.IntentApply)
		o := r.await(p, record.PhaseFailed)
		if o.Operation != "register" || o.Reason != record.ReasonCreateFailed && o.Reason != record.ReasonOscarUnreachable {
			t.Errorf("report %+v", o)
		}
		r.sim.ClearFaults()
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
		r.await(p, record.PhaseDeleted)
	})
}
