package syncer_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// make takes a replica through prepare and apply until it is ready.
func (r *rig) makeReady(p *replica) *record.Observed {
	r.t.Helper()
	r.want(p, record.IntentPrepare)
	r.await(p, record.PhasePrepared)
	r.want(p, record.IntentApply)
	return r.await(p, record.PhaseReady)
}

// inPlace checks that the service stands as desired: token, secret, buckets.
func (r *rig) inPlace(p *replica) {
	r.t.Helper()
	v, ok := r.sim.Service(p.name)
	if !ok {
		r.t.Fatalf("service %s is not there", p.name)
	}
	if v.Token != p.token || v.Image != p.image || v.Owner != p.owner || v.Secrets["KEY"] != p.secret {
		r.t.Errorf("service %s: token ours %v, image %s, owner %q, secret ours %v", p.name, v.Token == p.token, v.Image, v.Owner, v.Secrets["KEY"] == p.secret)
	}
	for _, b := range p.buckets {
		if p.origin == nil {
			if _, ok := r.sim.Bucket(b); !ok {
				r.t.Errorf("bucket %s is not there", b)
			}
		}
		if !slices.Contains(v.Inputs, b+"/in") || !slices.Contains(v.Outputs, b+"/out") {
			r.t.Errorf("inputs %v and outputs %v do not name %s", v.Inputs, v.Outputs, b)
		}
	}
}

func TestCreateCoordinator(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		p.extra = map[string]any{"namespace": "oscar", "log_level": "nonsense", "allowed_users": []any{" u ", ""}}
		before := r.mirror.Revision()
		o := r.makeReady(p)
		r.inPlace(p)
		r.equalCalls(p.name, "create")
		if v, _ := r.sim.Service(p.name); v.Namespace != "oscar-svc" || !v.Registered || v.Webhook != p.token {
			t.Errorf("namespace %q, webhook registered %v", v.Namespace, v.Registered)
		}
		if o.ReadBack == "" || !slices.Equal(o.BucketsMade, p.buckets) || o.Reason != record.ReasonApplied || o.ObservedGeneration != 1 || o.Vote == nil {
			t.Errorf("report %+v", o)
		}
		// Nothing more is reported: a creation costs one vote and one report.
		if n := r.reports(p.name, before); n != 2 {
			t.Errorf("%d reports were written, want 2", n)
		}
	})
}

// reports counts how often the report about a service was written since.
func (r *rig) reports(name string, since int64) int {
	r.t.Helper()
	n := 0
	r.past(name, since+1, func(*record.Observed) { n++ })
	return n
}

// past tells each report about a service that was written from a revision on.
func (r *rig) past(name string, from int64, tell func(*record.Observed)) {
	r.t.Helper()
	to := r.put("/oscarfed/v1/test/now", time.Now().String())
	err := r.store.History(r.t.Context(), record.ObservedServiceKey(clusterID, name), from, to, func(_ int64, events []store.Event) error {
		for _, e := range events {
			if e.Deleted {
				continue
			}
			o, err := store.Decode[record.Observed](e.KV)
			if err != nil {
				return err
			}
			tell(o)
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestCreateWorker(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("worker")
		p.coordinator = false
		o := r.makeReady(p)
		r.inPlace(p)
		r.equalCalls(p.name, "create")
		if b, _ := r.sim.Bucket("worker"); b.Tags["from_service"] != "worker" || !slices.Equal(o.BucketsMade, []string{"worker"}) {
			t.Errorf("bucket %+v; reported %v", b, o.BucketsMade)
		}
	})
}

// TestCreateSurvives: what OSCAR does to a POST, and what comes of it.
func TestCreateSurvives(t *testing.T) {
	for _, tc := range []struct {
		fault string
		count int
		calls []string
	}{
		{fault: oscarsim.Fault500, count: 1, calls: []string{"create", "create"}},
		{fault: oscarsim.Fault500, count: 2, calls: []string{"create", "create", "create"}},
		{fault: oscarsim.Fault500After, count: 1, calls: []string{"create"}},
		{fault: oscarsim.FaultLate, count: 1, calls: []string{"create"}},
		{fault: oscarsim.FaultHang, count: 1, calls: []string{"create", "create"}},
		{fault: oscarsim.FaultRefuse, count: 1, calls: []string{"create", "create"}},
	} {
		t.Run(tc.fault, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				r.want(p, record.IntentPrepare)
				r.await(p, record.PhasePrepared)
				r.fault(oscarsim.OpCreate, tc.fault, tc.count)
				r.want(p, record.IntentApply)
				r.await(p, record.PhaseReady)
				r.inPlace(p)
				r.equalCalls(p.name, tc.calls...)
			})
		})
	}
}

func TestCreateFails(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(*rig, *replica)
		reason  record.Reason
		status  int
		mention string
		calls   []string
	}{
		{"three times 500", func(r *rig, p *replica) { r.fault(oscarsim.OpCreate, oscarsim.Fault500, 0) },
			record.ReasonCreateFailed, 500, "etcdserver", []string{"create", "create", "create"}},
		{"a definite refusal", func(_ *rig, p *replica) { p.extra = map[string]any{"script": ""} },
			record.ReasonCreateFailed, 400, "Service.Script", []string{"create"}},
		{"a leftover Secret", func(r *rig, p *replica) { r.sim.LeftoverSecret(p.name) },
			record.ReasonCreateFailed, 409, "secret", []string{"create"}},
		{"the name was taken after the vote", func(r *rig, p *replica) { r.foreignService(p.name, "elsewhere") },
			record.ReasonNameTaken, 0, "not of the federation", nil},
		{"the bucket was taken after the vote", func(r *rig, p *replica) { r.sim.PutBucket(p.name, "precious"); r.watchBucket(p.name) },
			record.ReasonForeignBucket, 0, `"grayify"`, nil},
		{"the credential was taken away", func(r *rig, p *replica) { r.fault(oscarsim.OpCreate, oscarsim.FaultDeny, 0) },
			record.ReasonCredentialRefused, 401, "password file", []string{"create"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				r.want(p, record.IntentPrepare)
				r.await(p, record.PhasePrepared)
				r.remove(record.SpecKey(clusterID, p.desired.Spec))
				p.generation++ // the spec is immutable: another one
				tc.prepare(r, p)
				r.want(p, record.IntentApply)
				o := r.await(p, record.PhaseFailed)
				if o.Reason != tc.reason || o.Status != tc.status || !strings.Contains(o.Message, tc.mention) {
					t.Errorf("failed with %s, status %d: %s\nwant %s, %d, %q", o.Reason, o.Status, o.Message, tc.reason, tc.status, tc.mention)
				}
				if o.Operation != "create" && tc.status != 0 {
					t.Errorf("operation %q", o.Operation)
				}
				r.equalCalls(p.name, tc.calls...)
				r.sim.ClearFaults()
				// The rollback touches nothing that is not ours.
				r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
				r.await(p, record.PhaseDeleted)
				r.equalCalls(p.name, tc.calls...)
			})
		})
	}
}

// TestAPOSTThatBreaksOffIsSentOnceMore, in time for the creation: OSCAR died before anything of the service was to be seen.
// The one that broke off is reckoned with until the end, also when the service is deleted before it takes effect.
func TestAPOSTThatBreaksOffIsSentOnceMore(t *testing.T) {
	for fault, late := range map[string]time.Duration{oscarsim.FaultRefuse: 0, oscarsim.FaultLate: 3 * time.Minute} {
		t.Run(fault, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				r.want(p, record.IntentPrepare)
				r.await(p, record.PhasePrepared)
				if err := r.sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: fault, Count: 1, Delay: late}); err != nil {
					t.Fatal(err)
				}
				deadline := time.Now().Add(2 * time.Minute) // that of a creation without a queue
				r.want(p, record.IntentApply)
				r.await(p, record.PhaseReady)
				if time.Now().After(deadline) {
					t.Error("the creation would have been rolled back")
				}
				r.inPlace(p)
				r.equalCalls(p.name, "create", "create")
				r.want(p, record.IntentDelete)
				r.await(p, record.PhaseDeleted)
				r.sim.Settle()
				if _, ok := r.sim.Service(p.name); ok {
					t.Error("acknowledged, and the POST that broke off has taken effect")
				}
			})
		})
	}
}

// TestHalfCreated: OSCAR dies in the middle of a POST. The service is listed
// without its buckets: that is not ready, and its removal leaves nothing.
func TestHalfCreated(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.fault(oscarsim.OpCreate, oscarsim.FaultCrash, 1)
		r.want(p, record.IntentApply)
		o := r.await(p, record.PhaseFailed)
		if o.Reason != record.ReasonCreateFailed || !strings.Contains(o.Message, "half-created") {
			t.Errorf("report %+v", o)
		}
		r.equalCalls(p.name, "create")
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
		r.await(p, record.PhaseDeleted)
		if _, ok := r.sim.Service(p.name); ok {
			t.Error("the half-created service is still there")
		}
		r.forget(p)
		again := newReplica(p.name)
		r.makeReady(again)
		r.inPlace(again)
	})
}

// TestSlowCreateIsNotTakenForHalfCreated: the POST is given up and goes on. Its
// service is listed, and its buckets come a little later.
func TestSlowCreateIsNotTakenForHalfCreated(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Latency: 1300 * time.Millisecond})
		r.start(func(c *syncer.Config) { c.WriteTimeout, c.LateWindow = time.Second, time.Minute })
		p := newReplica("grayify")
		before := r.mirror.Revision()
		r.makeReady(p)
		r.inPlace(p)
		if got, want := r.phases(p.name, before), "prepared ready"; got != want {
			t.Errorf("reports %q, want %q", got, want)
		}
		r.equalCalls(p.name, "create")
	})
}

// TestAttach: the bucket that an earlier life left is taken over with its data.
func TestAttach(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		first := newReplica("grayify")
		r.makeReady(first)
		r.sim.PutBucket("grayify", "in/mine")
		r.want(first, record.IntentDelete)
		r.await(first, record.PhaseDeleted)
		r.forget(first)

		second := newReplica("grayify")
		second.buckets = []string{"grayify", "grayify-new"}
		o := r.makeReady(second)
		r.inPlace(second)
		if b, _ := r.sim.Bucket("grayify"); !slices.Contains(b.Objects, "in/mine") {
			t.Errorf("objects %v", b.Objects)
		}
		if !slices.Equal(o.BucketsMade, []string{"grayify-new"}) {
			t.Errorf("buckets reported as made by this life: %v", o.BucketsMade)
		}
		if calls := r.calls("grayify"); calls[3] != "create" || calls[4] != "update" {
			t.Errorf("calls %v: want a create and then an update to attach", calls)
		}
	})
}

// TestRetryAfterRollbackAttaches: a rolled-back creation leaves its bucket, and
// the same request works afterwards.
func TestRetryAfterRollbackAttaches(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		first := newReplica("grayify")
		r.makeReady(first)
		r.want(first, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
		o := r.await(first, record.PhaseDeleted)
		if !slices.Equal(o.BucketsMade, []string{"grayify"}) || o.Operation != "delete" {
			t.Errorf("acknowledgement %+v: the bucket that is left is not named", o)
		}
		r.forget(first)
		second := newReplica("grayify")
		r.makeReady(second)
		r.inPlace(second)
	})
}

// TestSecretsAreNotReported: OSCAR may quote what it was sent.
func TestSecretsAreNotReported(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		proxy := r.quotingProxy()
		r.start(func(c *syncer.Config) { c.OSCAR = proxy })
		p := newReplica("grayify")
		r.want(p, record.IntentApply)
		o := r.await(p, record.PhaseFailed)
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), p.secret) || strings.Contains(string(raw), p.token) {
			t.Errorf("a secret was reported: %s", raw)
		}
		if !strings.Contains(o.Message, "***") {
			t.Errorf("message %q: nothing was quoted, so nothing was shown", o.Message)
		}
	})
}

// TestYesAndNothingDone: an OSCAR that answers success and does nothing is asked
// three times, and not for ever.
func TestYesAndNothingDone(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		creates := 0
		liar := &proxy{OSCAR: r.oscar("syncer"), create: func(context.Context, string, []byte, manager.Bearer, time.Duration) error { creates++; return nil }}
		stop := r.start(func(c *syncer.Config) { c.OSCAR, c.Resync = liar, never })
		p := newReplica("grayify")
		r.want(p, record.IntentApply)
		o := r.await(p, record.PhaseFailed)
		if o.Reason != record.ReasonCreateFailed || !strings.Contains(o.Message, "does not list it") {
			t.Errorf("report %+v", o)
		}
		stop()
		if creates != 3 {
			t.Errorf("it was asked %d times, want 3", creates)
		}
	})
}

func TestPausedWritesNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.register(record.ClusterPaused)
		r.start()
		p, voter := newReplica("grayify"), newReplica("voter")
		r.want(p, record.IntentApply)
		r.want(voter, record.IntentPrepare)
		r.await(voter, record.PhasePrepared)
		r.equalCalls(p.name)
		r.register(record.ClusterActive)
		r.await(p, record.PhaseReady)
		// Paused again, it is only watched.
		r.register(record.ClusterPaused)
		r.ask(http.MethodDelete, "/system/services/"+p.name, "")
		r.await(p, record.PhaseDrifted, because(record.ReasonPaused))
		r.equalCalls(p.name, "create", "delete")
		r.register(record.ClusterActive)
		r.await(p, record.PhaseReady)
	})
}

// TestAPOSTThatTheSyncerCutOffIsNotRepeated: OSCAR is at work on it when the session of the syncer ends.
func TestAPOSTThatTheSyncerCutOffIsNotRepeated(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		inner := r.oscar("syncer")
		var sent atomic.Int32
		r.start(func(c *syncer.Config) {
			c.OSCAR = &proxy{OSCAR: inner, create: func(ctx context.Context, name string, body []byte, as manager.Bearer, timeout time.Duration) error {
				sent.Add(1)
				went := time.AfterFunc(150*time.Second, func() { _ = inner.Create(context.WithoutCancel(ctx), name, body, as, timeout) })
				t.Cleanup(func() { went.Stop() })
				<-ctx.Done()
				return &manager.APIError{Op: manager.OpCreate, Service: name, Err: ctx.Err()}
			}}
		})
		p := newReplica("grayify")
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.want(p, record.IntentApply)
		r.eventually("the POST was sent", func() bool { return sent.Load() == 1 })
		back := r.etcdGone()
		<-time.After(56 * time.Second)
		back()
		r.await(p, record.PhaseReady)
		if n := sent.Load(); n != 1 {
			t.Errorf("%d POSTs", n)
		}
	})
}
