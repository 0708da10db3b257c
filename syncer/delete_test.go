package syncer_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

func TestDeleteKeepsBucketAndObjects(t *testing.T) {
	for _, coordinator := range []bool{true, false} {
		t.Run(fmt.Sprintf("coordinator %v", coordinator), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				p.coordinator = coordinator
				r.makeReady(p)
				r.sim.PutBucket("grayify", "in/mine", "out/mine")
				r.watchBucketData("grayify")
				r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseDeleted })
				o := r.await(p, record.PhaseDeleted)
				if o.Reason != record.ReasonDeleted || o.Operation != "delete" {
					t.Errorf("acknowledgement %+v", o)
				}
				if _, ok := r.sim.Service(p.name); ok {
					t.Error("the service is still there")
				}
				if _, ok := r.sim.Secret(p.name); ok {
					t.Error("its Secret is still there")
				}
				r.equalCalls(p.name, "create", "update", "delete")
			})
		})
	}
}

// watchBucketData watches over the objects that are in a bucket of ours now.
func (r *rig) watchBucketData(name string) {
	was, _ := r.sim.Bucket(name)
	r.watch("objects of "+name, func() any {
		v, _ := r.sim.Bucket(name)
		return slices.DeleteFunc(v.Objects, func(o string) bool { return !slices.Contains(was.Objects, o) })
	})
}

func TestDeleteWithData(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		p.buckets = []string{"grayify", "grayify-two"}
		r.makeReady(p)
		r.sim.PutBucket("grayify", "in/mine")
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Data = "delete" })
		o := r.await(p, record.PhaseDeleted)
		if got := fatesOf(o); got != "grayify deleted; grayify-two deleted" {
			t.Errorf("told: %s", got)
		}
		for _, b := range p.buckets {
			if _, ok := r.sim.Bucket(b); ok {
				t.Errorf("bucket %s is still there", b)
			}
		}
		if len(o.BucketsMade) != 0 {
			t.Errorf("buckets left: %v", o.BucketsMade)
		}
	})
}

// TestDeleteWithDataSparesWhatIsNotOfThisLife: an attached bucket, one that
// another service made anew and left, and one that another service uses.
func TestDeleteWithDataSparesWhatIsNotOfThisLife(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.leave("grayify", "grayify")
		r.start()
		p := newReplica("grayify")
		p.buckets = []string{"grayify", "remade", "shared"}
		if o := r.makeReady(p); !slices.Equal(o.BucketsMade, []string{"remade", "shared"}) {
			t.Fatalf("buckets made: %v", o.BucketsMade)
		}
		r.watchBucketData("grayify")
		r.deleteBucket("remade")
		r.leave("stranger", "remade")
		r.watchBucket("remade")
		user := `{"name":"user","image":"i","script":"s","annotations":{"oscar.grycap/federation-worker":"true"},
		"federation":{"topology":"mesh"},"input":[{"storage_provider":"minio.default","path":"shared/in"}]}`
		if err := r.sim.PutService(user); err != nil {
			t.Fatal(err)
		}
		r.watchBucketData("shared")
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Data = "delete" })
		o := r.await(p, record.PhaseDeleted)
		want := "grayify kept with 1: it was not made by this creation; remade kept with 1: somebody else has made it anew; " +
			"shared kept with 0: another service uses it"
		if got := fatesOf(o); got != want {
			t.Errorf("told: %s", got)
		}
	})
}

// fatesOf is what a report tells of buckets.
func fatesOf(o *record.Observed) string {
	var out []string
	for _, f := range o.BucketFates {
		text := f.Bucket + " " + f.Fate
		if f.Objects != nil {
			text += fmt.Sprintf(" with %d", *f.Objects)
		}
		if f.AtLeast {
			text += " or more"
		}
		if f.Why != "" {
			text += ": " + f.Why
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// TestDeleteTellsHowMuchStays: more objects than OSCAR shows at a time, one that is
// uploaded while the service is being deleted, and a bucket that cannot be read.
func TestDeleteTellsHowMuchStays(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Latency: 50 * time.Millisecond})
		r.start()
		p := newReplica("grayify")
		p.buckets = []string{"grayify", "grayify-two"}
		r.makeReady(p)
		var objects []string
		for i := range 200 {
			objects = append(objects, fmt.Sprintf("out/%d", i))
		}
		r.sim.PutBucket("grayify", objects...)
		r.want(p, record.IntentDelete)
		if err := r.sim.Upload("grayify-two", "out/late"); err != nil {
			t.Fatal(err)
		}
		if got := fatesOf(r.await(p, record.PhaseDeleted)); got != "grayify kept with 200; grayify-two kept with 1" {
			t.Errorf("told: %s", got)
		}
	})
}

// uncountable is an OSCAR whose buckets cannot be read.
type uncountable struct{ syncer.OSCAR }

func (uncountable) CountObjects(context.Context, string, int64) (int64, bool, error) {
	return 0, false, &manager.APIError{Op: manager.OpBucket, Status: http.StatusInternalServerError}
}

func TestABucketThatCannotBeReadHoldsNothingUp(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start(func(c *syncer.Config) { c.OSCAR = uncountable{c.OSCAR} })
		p := newReplica("grayify")
		r.makeReady(p)
		r.want(p, record.IntentDelete)
		if got := fatesOf(r.await(p, record.PhaseDeleted)); got != "grayify kept" {
			t.Errorf("told: %s", got)
		}
	})
}

// TestDeleteSurvives: what OSCAR does to the detaching PUT and to the DELETE.
func TestDeleteSurvives(t *testing.T) {
	for _, op := range []oscarsim.Op{oscarsim.OpUpdate, oscarsim.OpDelete} {
		for _, fault := range []string{oscarsim.Fault500, oscarsim.Fault500After, oscarsim.FaultHang, oscarsim.FaultLate, oscarsim.FaultRefuse, oscarsim.FaultCrash} {
			t.Run(op+" "+fault, func(t *testing.T) {
				await.InVirtualTime(t, func(t *testing.T) {
					r := newRig(t, oscarsim.Config{})
					r.start()
					p := newReplica("grayify")
					r.makeReady(p)
					r.sim.PutBucket("grayify", "in/mine")
					r.watchBucketData("grayify")
					r.fault(op, fault, 1)
					r.want(p, record.IntentDelete)
					r.await(p, record.PhaseDeleted)
					r.sim.Settle()
					if _, ok := r.sim.Service(p.name); ok {
						t.Error("acknowledged, and the service is there")
					}
				})
			})
		}
	}
}

func TestDetachThatFailsIsToldAndDeletesNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		r.sim.PutBucket("grayify", "in/mine")
		r.watchBucketData("grayify")
		r.fault(oscarsim.OpUpdate, oscarsim.Fault500, 0)
		r.want(p, record.IntentDelete)
		o := r.await(p, record.PhaseFailed, because(record.ReasonDetachFailed))
		if o.Operation != "detach" || o.Status != 500 {
			t.Errorf("report %+v", o)
		}
		if slices.Contains(r.calls(p.name), "delete") {
			t.Error("a service that could not be detached was deleted")
		}
		r.sim.ClearFaults()
		r.await(p, record.PhaseDeleted)
	})
}

func TestDeleteThatFailsIsToldAndTriedAgain(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		r.fault(oscarsim.OpDelete, oscarsim.Fault500, 0)
		r.want(p, record.IntentDelete)
		r.await(p, record.PhaseFailed, because(record.ReasonDeleteFailed))
		if secret, _ := r.sim.Secret(p.name); secret["KEY"] != p.secret {
			t.Error("detaching has overwritten the Secret with empty values")
		}
		r.sim.ClearFaults()
		r.await(p, record.PhaseDeleted)
	})
}

// TestDeleteSparesABucketThatSomebodyPutIn: OSCAR's DELETE would delete a
// foreign bucket that a user has added to our service.
func TestDeleteSparesABucketThatSomebodyPutIn(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		p.drift = "report"
		r.makeReady(p)
		r.ask(http.MethodPut, "/system/services", `{"name":"grayify","image":"i","script":"s","owner":"cluster_admin","output":[{"storage_provider":"minio.default","path":"canary-bucket/out"}]}`)
		r.await(p, record.PhaseDrifted)
		r.want(p, record.IntentDelete)
		r.await(p, record.PhaseDeleted)
		// The canaries are checked at the end.
	})
}

func TestTombstoneOfSomethingForeign(t *testing.T) {
	t.Run("a foreign service stands there", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r := newRig(t, oscarsim.Config{})
			r.foreignService("grayify", "grayify")
			r.start()
			p := newReplica("grayify")
			r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })
			if o := r.await(p, record.PhaseDeleted); !strings.Contains(o.Message, "not of the federation") || o.Operation != "" {
				t.Errorf("acknowledgement %+v", o)
			}
			r.equalCalls(p.name)
		})
	})
	t.Run("a copy of what we deleted stands there", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r := newRig(t, oscarsim.Config{})
			r.start(func(c *syncer.Config) { c.Resync = never })
			p := newReplica("grayify")
			r.makeReady(p)
			r.want(p, record.IntentDelete)
			if o := r.await(p, record.PhaseDeleted); o.Operation != "delete" {
				t.Errorf("acknowledgement %+v", o)
			}
			r.forget(p)
			copied := fmt.Sprintf(`{"name":"grayify","image":"i","script":"s","annotations":{"oscarfed/uid":%q,"oscarfed/generation":"1"}}`, p.uid)
			if err := r.sim.PutService(copied); err != nil {
				t.Fatal(err)
			}
			r.watch("the copy", func() any { v, _ := r.sim.Service(p.name); return v })
			r.want(p, record.IntentDelete)
			if o := r.await(p, record.PhaseDeleted); o.Operation != "" {
				t.Errorf("the copy is reported as deleted: %+v", o)
			}
		})
	})
	t.Run("a later life stands there", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r := newRig(t, oscarsim.Config{})
			r.start()
			later := newReplica("grayify")
			r.makeReady(later)
			r.forget(later)
			r.watch("the later life", func() any { v, _ := r.sim.Service("grayify"); return v })
			earlier := newReplica("grayify")
			r.want(earlier, record.IntentDelete)
			if o := r.await(earlier, record.PhaseDeleted); !strings.Contains(o.Message, "another life") || o.Operation != "" {
				t.Errorf("acknowledgement %+v", o)
			}
			r.equalCalls("grayify", "create")
		})
	})
	t.Run("a later generation stands there", func(t *testing.T) {
		await.InVirtualTime(t, func(t *testing.T) {
			r := newRig(t, oscarsim.Config{})
			r.start()
			p := newReplica("grayify")
			p.generation = 5
			r.makeReady(p)
			r.watch("the service", func() any { v, _ := r.sim.Service("grayify"); return v })
			p.generation = 4
			r.want(p, record.IntentDelete)
			r.await(p, record.PhaseHeld, because(record.ReasonAheadOfDesired))
			r.equalCalls("grayify", "create")
		})
	})
}

func TestWedged(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		healer := &healer{sim: r.sim}
		r.start(func(c *syncer.Config) { c.Kube = healer })
		p := newReplica("grayify")
		r.makeReady(p)
		r.sim.PutBucket("grayify", "in/mine")
		r.watchBucketData("grayify")
		r.sim.HalfCreate("grayify")
		r.want(p, record.IntentDelete)
		r.await(p, record.PhaseWedged)
		healer.able.Store(true)
		r.await(p, record.PhaseDeleted)
	})
}
