package syncer_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// free is the order to give a service free.
func free(d *record.Desired) { d.Cause, d.Keep = record.CauseRemoved, record.KeepRelease }

// releasedAfter gives a replica free, by a syncer that dies on the way.
func (r *rig) releasedAfter(p *replica, died <-chan struct{}) {
	r.t.Helper()
	r.want(p, record.IntentDelete, free)
	r.await(p, record.PhaseDeleted)
	<-died
	r.isFree(p)
}

// isFree looks at a service that was given free: it is as it was, without marks.
func (r *rig) isFree(p *replica) {
	r.t.Helper()
	v, ok := r.sim.Service(p.name)
	if !ok {
		r.t.Fatal("the service is gone")
	}
	for _, mark := range []string{"oscarfed/", "_oscarfed", "federation-worker", "origin-", `"federation"`} {
		if strings.Contains(string(v.JSON), mark) {
			r.t.Errorf("%s is still in %s", mark, v.JSON)
		}
	}
	if v.Token != p.token || v.Secrets["KEY"] != p.secret {
		r.t.Errorf("token %q, secrets %v", v.Token, v.Secrets)
	}
	for _, b := range p.buckets {
		if !strings.Contains(string(v.JSON), b+"/in") {
			r.t.Errorf("it has lost its bucket %s: %s", b, v.JSON)
		}
	}
	if slices.Contains(r.calls(p.name), "delete") {
		r.t.Error("it was deleted")
	}
}

func TestReleaseKeepsEverythingButTheMarks(t *testing.T) {
	for _, coordinator := range []bool{true, false} {
		t.Run(map[bool]string{true: "coordinator", false: "worker"}[coordinator], func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				p.coordinator = coordinator
				r.makeReady(p)
				before, made := r.sim.Bucket("grayify")
				r.want(p, record.IntentDelete, free)
				o := r.await(p, record.PhaseDeleted)
				if o.Operation != "release" {
					t.Errorf("%+v", o)
				}
				r.isFree(p)
				if after, _ := r.sim.Bucket("grayify"); !made || cmp.Diff(before, after) != "" {
					t.Errorf("its bucket was touched: %s", cmp.Diff(before, after))
				}
				// It is nobody's from now on: no orphan, and in the way of another life.
				r.forget(p)
				r.resynced()
				if c := r.cluster(); len(c.Orphans) != 0 {
					t.Errorf("orphans %v", c.Orphans)
				}
				again := newReplica("grayify")
				r.want(again, record.IntentPrepare)
				r.await(again, record.PhaseRefused, because(record.ReasonNameTaken))
			})
		})
	}
}

// TestAReleaseBetweenTheWritesOfARepairGivesBackWhatTheFirstTook: that one has OSCAR register the webhook, and the
// service is without its storage until the second.
func TestAReleaseBetweenTheWritesOfARepairGivesBackWhatTheFirstTook(t *testing.T) {
	begin := func(t *testing.T) (*rig, *replica) {
		r := newRig(t, oscarsim.Config{})
		died := r.startDying("syncer.after_update")
		p := newReplica("grayify")
		p.coordinator = false
		p.extra = map[string]any{"visibility": "public"}
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.fault(oscarsim.OpCreate, oscarsim.FaultCrash, 1)
		r.want(p, record.IntentApply)
		<-died
		return r, p
	}
	t.Run("it is as it was", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := begin(t)
			r.want(p, record.IntentDelete, free)
			r.await(p, record.PhaseDeleted)
			r.isFree(p)
			if v, _ := r.sim.Service(p.name); !strings.Contains(string(v.JSON), `"visibility":"public"`) {
				t.Errorf("its visibility is not what it was: %s", v.JSON)
			}
			r.equalCalls(p.name, "create", "update", "update")
		})
	})
	t.Run("somebody has changed it meanwhile", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := begin(t)
			r.ask(http.MethodPut, "/system/services", `{"name":"grayify","image":"i","script":"s","owner":"cluster_admin",
				"input":[{"storage_provider":"minio.default","path":"other/in"}],
				"output":[{"storage_provider":"minio.default","path":"_oscarfed/webhook"}]}`)
			r.want(p, record.IntentDelete, free)
			r.await(p, record.PhaseDeleted)
			if v, _ := r.sim.Service(p.name); len(v.Outputs) != 0 || !slices.Equal(v.Inputs, []string{"other/in"}) {
				t.Errorf("inputs %v, outputs %v", v.Inputs, v.Outputs)
			}
		})
	})
	t.Run("its bucket is somebody else's by now", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r, p := begin(t)
			r.foreignService("foreign", p.name)
			r.want(p, record.IntentDelete, free)
			r.await(p, record.PhaseFailed, because(record.ReasonForeignBucket))
			r.ask(http.MethodPut, "/system/services", `{"name":"grayify","image":"i","script":"s","owner":"cluster_admin"}`)
			r.await(p, record.PhaseDeleted)
			r.equalCalls(p.name, "create", "update", "update")
		})
	})
}

// TestAReleaseThatOSCARDoesNotDoIsNoDeletion: whatever goes wrong, it is tried
// again, and the service stays.
func TestAReleaseThatOSCARDoesNotDoIsNoDeletion(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		r.fault(oscarsim.OpUpdate, oscarsim.Fault500, 0)
		r.want(p, record.IntentDelete, free)
		r.await(p, record.PhaseFailed, because(record.ReasonUpdateFailed))
		if v, ok := r.sim.Service(p.name); !ok || !strings.Contains(string(v.JSON), p.uid) {
			t.Errorf("%+v", v)
		}
		r.sim.ClearFaults()
		r.await(p, record.PhaseDeleted)
		r.isFree(p)
	})
}

// TestAReleaseOfAForeignServiceTouchesNothing: its mark is not that of the order.
func TestAReleaseOfAForeignServiceTouchesNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		p := newReplica("canary") // a foreign service stands there
		r.want(p, record.IntentDelete, free)
		r.start()
		r.await(p, record.PhaseDeleted)
		if calls := r.calls("canary"); len(calls) != 0 {
			t.Errorf("calls %v", calls)
		}
	})
}
