package controlplane_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

func TestDeleteDuringACreateMakesItRollBack(t *testing.T) {
	for phase, stops := range map[record.Phase]record.Intent{
		record.PhasePreparing: record.IntentPrepare, record.PhaseApplying: record.IntentApply,
	} {
		t.Run(string(phase), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				reached := make(chan struct{})
				once := sync.OnceFunc(func() { close(reached) })
				w.clusters["b"].does(func(s string, d *record.Desired) *record.Observed {
					if d.Intent == stops {
						once()
						return nil
					}
					return yes(s, d)
				})
				done := make(chan error)
				go func() { _, err := w.create(); done <- err }()
				<-reached
				if _, err := w.Federations.CreateService(t.Context(), admin, send(t, strings.Replace(body, "0.5Gi", "1Gi", 1))); codeOf(t, err) != fault.CodeConflict {
					t.Errorf("another change while one is in flight: %v", err)
				}
				if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
					t.Fatal(err)
				}
				if err := <-done; codeOf(t, err) != fault.CodeConflict {
					t.Errorf("the creator is told: %v", err)
				}
				for _, c := range []string{"a", "b", "c"} {
					if left := w.keys(record.DesiredServicesPrefix(c)); len(left) > 0 {
						t.Errorf("left behind: %v", left)
					}
				}
			})
		})
	}
}

func TestAPendingDeleteHoldsItsNameAgainstAnotherOwner(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		alice, bob := identity.Caller{Subject: "alice@example.org"}, identity.Caller{Subject: "bob/with/slashes"}
		if _, err := w.Federations.CreateService(t.Context(), alice, send(t, usersBody)); err != nil {
			t.Fatal(err)
		}
		w.clusters["c"].does(silent)
		w.clusters["c"].disconnect()
		w.eventually(func() bool { c, err := w.Clusters.Get(t.Context(), admin, "c"); return err == nil && !c.Alive })
		res, err := w.Federations.DeleteService(t.Context(), alice, "grayifyr0", federations.DeleteOptions{Wait: time.Minute})
		if err != nil || res.Pending != 1 {
			t.Fatalf("%+v %v", res, err)
		}
		if _, err := w.Federations.Replicas(t.Context(), alice, "grayifyr0", ""); codeOf(t, err) != fault.CodeNotFound {
			t.Errorf("a deleted federation is gone at once: %v", err)
		}
		_, err = w.Federations.CreateService(t.Context(), bob, send(t, usersBody))
		if codeOf(t, err) != fault.CodeAlreadyExists || strings.Contains(err.Error(), "alice") {
			t.Errorf("%v", err)
		}
		without := strings.Replace(usersBody, `,{"type":"oscar","cluster_id":"c","service_name":"grayifyr2"}`, "", 1)
		w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("a"))) == 0 })
		if _, err := w.Federations.CreateService(t.Context(), bob, send(t, without)); err != nil {
			t.Errorf("the reachable clusters are free: %v", err)
		}
		w.clusters["c"].connect()
		w.clusters["c"].does(yes)
		w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("c"))) == 0 })
		if _, _, err := w.Federations.Service(t.Context(), alice, "grayifyr0", ""); codeOf(t, err) != fault.CodeNotFound {
			t.Errorf("bob's private service is not alice's to see: %v", err)
		}
	})
}

func TestADeletionThatWaitsForJobsCanBeHurried(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.create(); err != nil {
			t.Fatal(err)
		}
		w.clusters["b"].does(func(s string, d *record.Desired) *record.Observed {
			if d.Tombstone() && d.Jobs != "cancel" {
				return nil // a job runs
			}
			return yes(s, d)
		})
		res, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: 300 * time.Millisecond})
		if err != nil || res.Pending != 1 {
			t.Fatal(res, err)
		}
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{}); codeOf(t, err) != fault.CodeNotFound {
			t.Error("without an order it is gone:", err)
		}
		res, err = w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Jobs: "cancel", Wait: time.Minute})
		if err != nil || res.Pending != 0 {
			t.Error(res, err)
		}
	})
}

// TestADeletionSaysWhatItWaitsFor: its syncer cannot tell yet whether what was sent before has had its effect.
func TestADeletionSaysWhatItWaitsFor(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.create(); err != nil {
			t.Fatal(err)
		}
		until := record.At(time.Now().Add(5 * time.Minute))
		waits := func(s string, d *record.Desired) *record.Observed {
			o := yes(s, d)
			if d.Tombstone() {
				o.Phase, o.WaitsUntil = record.PhaseReady, &until
			}
			return o
		}
		for _, c := range w.clusters {
			c.does(waits)
		}
		if res, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Second}); err != nil || res.Pending != 3 {
			t.Fatal(res, err)
		}
		want := "may still take effect: it goes on after " + until.Format(time.RFC3339)
		if list, err := w.Federations.Deleted(t.Context(), admin, ""); err != nil || len(list) == 0 || !strings.Contains(list[0].Message, want) {
			t.Errorf("%+v, %v", list, err)
		}
		if _, err := w.create(); codeOf(t, err) != fault.CodeAlreadyExists || !strings.Contains(err.Error(), want) {
			t.Errorf("made again: %v", err)
		}
	})
}

// TestAnOrderAboutADeletionIsTakenBesideAStrangersService: it is not the public one that its caller means.
func TestAnOrderAboutADeletionIsTakenBesideAStrangersService(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		ann, bob := identity.Caller{Subject: "ann"}, identity.Caller{Subject: "bob"}
		w.everybody(func(service string, d *record.Desired) *record.Observed {
			if d.Tombstone() && d.Data == "" {
				return nil // it is on its way
			}
			return yes(service, d)
		})
		service := func(cluster string) string {
			return strings.NewReplacer(`"cluster_id":"d"`, `"visibility":"public","cluster_id":"`+cluster+`"`).Replace(lone)
		}
		for cluster, owner := range map[string]identity.Caller{"a": ann, "b": bob} {
			if _, err := w.Federations.CreateService(t.Context(), owner, send(t, service(cluster))); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Federations.DeleteService(t.Context(), ann, "lone", federations.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if res, err := w.Federations.DeleteService(t.Context(), ann, "lone", federations.DeleteOptions{Data: record.DataDelete, Wait: time.Minute}); err != nil || res.Pending != 0 {
			t.Errorf("%+v, %v", res, err)
		}
		if _, ok := w.desired("a", "lone"); ok {
			t.Error("her tombstone did not get the order")
		}
		if d, ok := w.desired("b", "lone"); !ok || d.Tombstone() {
			t.Error("the stranger's service was deleted")
		}
		if _, err := w.Federations.DeleteService(t.Context(), ann, "lone", federations.DeleteOptions{Data: record.DataDelete}); codeOf(t, err) != fault.CodeForbidden {
			t.Errorf("when hers is gone: %v", err)
		}
	})
}

// Buckets that were kept are not emptied by an order about another service of the same name.
func TestAnOrderAboutAnAmbiguousNameChangesNoDeletionUnderWay(t *testing.T) {
	ann := identity.Caller{Subject: "ann"}
	service := func(cluster string) string {
		return strings.NewReplacer("lone", "same", `"cluster_id":"d"`, `"cluster_id":"`+cluster+`","federation":{"group_id":"same-`+cluster+`"}`).Replace(lone)
	}
	for name, tt := range map[string]struct {
		going  []string
		caller identity.Caller
	}{
		"beside two living ones":                {[]string{"c"}, ann},
		"of two that go":                        {[]string{"a", "b", "c"}, ann},
		"of two that go, for the administrator": {[]string{"a", "b", "c"}, admin},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				w.everybody(func(service string, d *record.Desired) *record.Observed {
					if d.Tombstone() && d.Data == "" {
						return nil // it is on its way
					}
					return yes(service, d)
				})
				for _, cluster := range []string{"a", "b", "c"} {
					if _, err := w.Federations.CreateService(t.Context(), ann, send(t, service(cluster))); err != nil {
						t.Fatal(err)
					}
				}
				for _, cluster := range tt.going {
					if _, err := w.Federations.DeleteService(t.Context(), ann, "same", federations.DeleteOptions{ClusterID: cluster}); err != nil {
						t.Fatal(err)
					}
				}
				for _, order := range []federations.DeleteOptions{{Data: record.DataDelete}, {Jobs: record.JobsCancel}} {
					_, err := w.Federations.DeleteService(t.Context(), tt.caller, "same", order)
					if e, ok := errors.AsType[*fault.Error](err); codeOf(t, err) != fault.CodeConflict || !ok || len(e.Candidates) < 2 {
						t.Errorf("%+v: %v", order, err)
					}
				}
				for _, cluster := range tt.going {
					if d, ok := w.desired(cluster, "same"); !ok || d.Data != "" || d.Jobs != "" {
						t.Errorf("the tombstone at %s: %+v", cluster, d)
					}
				}
				// Where the cluster is named, it is an order about that deletion.
				if _, err := w.Federations.DeleteService(t.Context(), tt.caller, "same", federations.DeleteOptions{ClusterID: "c", Data: record.DataDelete, Wait: time.Minute}); err != nil {
					t.Error(err)
				}
				if d, ok := w.desired("c", "same"); ok {
					t.Errorf("the tombstone at c: %+v", d)
				}
			})
		})
	}
}

func TestDeletingAMemberRemovesIt(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.create(); err != nil {
			t.Fatal(err)
		}
		res, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr2", federations.DeleteOptions{Wait: time.Minute})
		if err != nil || res.Pending != 0 {
			t.Fatal(res, err)
		}
		v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
		if err != nil || len(v.Members) != 2 || v.Generation != 2 {
			t.Errorf("%+v %v", v, err)
		}
	})
}
