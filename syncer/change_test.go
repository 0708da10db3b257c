package syncer_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

func TestChange(t *testing.T) {
	for _, fault := range []string{"", oscarsim.Fault500, oscarsim.Fault500After, oscarsim.FaultHang, oscarsim.FaultLate, oscarsim.FaultRefuse, oscarsim.FaultCrash} {
		t.Run("fault "+fault, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				r.makeReady(p)
				if fault != "" {
					r.fault(oscarsim.OpUpdate, fault, 1)
				}
				p.generation, p.image, p.secret = 2, "example.org/other:2", "hush-second"
				p.buckets = []string{"grayify", "grayify-more"}
				r.want(p, record.IntentApply)
				o := r.await(p, record.PhaseReady)
				r.inPlace(p)
				if o.ObservedGeneration != 2 || !slices.Equal(o.BucketsMade, p.buckets) {
					t.Errorf("report %+v", o)
				}
				r.sim.Settle()
				r.eventually("late work is undone", func() bool { v, _ := r.sim.Service(p.name); return v.Image == p.image })
			})
		})
	}
}

// TestTheLastSecretStayedWhenItWasRemoved: OSCAR leaves its Secret as it is when a PUT has none.
// That of somebody's own PUT is taken away, too.
func TestTheLastSecretStayedWhenItWasRemoved(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		p.generation, p.secret = 2, ""
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		r.inPlace(p)
		r.resynced()
		r.equalCalls(p.name, "create", "update")

		before := r.mirror.Revision()
		r.ask(http.MethodPut, "/system/services", strings.Replace(vandal, "{", `{"environment":{"secrets":{"THEIRS":"x"}},`, 1))
		r.repairedOnce(p, before)
		if v, _ := r.sim.Service(p.name); v.Secrets["THEIRS"] != "" {
			t.Errorf("the Secret holds %v", v.Secrets)
		}
		p.generation, p.secret = 3, "hush-third"
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		r.inPlace(p)
	})
}

// TestAnOscarThatAnswers500IsToldFromTheFirstTryOn: one report, whatever the number
// of tries, before the one that is the outcome.
func TestAnOscarThatAnswers500IsToldFromTheFirstTryOn(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		before := r.mirror.Revision()
		p.generation, p.cpu = 2, "lots"
		r.want(p, record.IntentApply)
		o := r.await(p, record.PhaseFailed)
		if got := r.phases(p.name, before); got != "applying failed" || o.Status != 500 {
			t.Errorf("reported %q, %+v", got, o)
		}
	})
}

func TestChangeFails(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		p.generation, p.cpu = 2, "lots"
		r.want(p, record.IntentApply)
		o := r.await(p, record.PhaseFailed)
		if o.Reason != record.ReasonUpdateFailed || o.Operation != "update" || o.Status != 500 || !strings.Contains(o.Message, "quantities") {
			t.Errorf("report %+v", o)
		}
		if o.Applied() != 1 {
			t.Errorf("generation %d is reported as in place", o.Applied())
		}
		// A better generation heals it.
		p.generation, p.cpu = 3, "1"
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
	})
}

func TestChangeOntoAForeignBucketIsRefused(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		p.generation, p.buckets = 2, []string{"grayify", "canary-data"}
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseFailed, because(record.ReasonForeignBucket))
		r.equalCalls(p.name, "create")
	})
}

// TestWorkerChangeMakesBuckets: a PUT makes what is missing, and the report says so.
func TestWorkerChangeMakesBuckets(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("worker")
		p.coordinator = false
		r.makeReady(p)
		p.generation, p.buckets = 2, []string{"worker", "worker-more"}
		r.want(p, record.IntentApply)
		if o := r.await(p, record.PhaseReady); !slices.Equal(o.BucketsMade, p.buckets) {
			t.Errorf("buckets made: %v", o.BucketsMade)
		}
		r.inPlace(p)
	})
}
