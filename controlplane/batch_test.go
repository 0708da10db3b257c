package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// batch is a request for services with these names. The replicas of each are named0 to named2.
func batch(t *testing.T, names ...string) federations.BatchRequest {
	t.Helper()
	req := federations.BatchRequest{Wait: time.Minute, Body: []byte(strings.Join(names, ","))}
	for _, name := range names {
		s, violations := oscar.ParseService([]byte(strings.ReplaceAll(body, "grayifyr", name)))
		if len(violations) > 0 {
			t.Fatal(violations)
		}
		req.Services = append(req.Services, s)
	}
	return req
}

// failsFor answers about services with this prefix as answer says.
func failsFor(prefix string, answer func(string, *record.Desired) *record.Observed) func(string, *record.Desired) *record.Observed {
	return func(service string, d *record.Desired) *record.Observed {
		if strings.HasPrefix(service, prefix) {
			return answer(service, d)
		}
		return yes(service, d)
	}
}

// nothingLeft holds that no name, desired record or spec is left.
func (w *world) nothingLeft() {
	w.t.Helper()
	for _, prefix := range []string{
		record.NamesPrefix, record.DesiredServicesPrefix("a"), record.DesiredServicesPrefix("b"), record.SpecsPrefix("c"), record.SecretsPrefix,
	} {
		if left := w.keys(prefix); len(left) > 0 {
			w.t.Errorf("left behind: %v", left)
		}
	}
}

// phases are the phases that each federation had, with the revisions at which they began.
func (w *world) phases() map[int64][]record.Phase {
	w.t.Helper()
	out, last := map[int64][]record.Phase{}, map[string]record.Phase{}
	err := w.store.History(w.t.Context(), record.FederationsPrefix, 1, w.revision(), func(rev int64, events []store.Event) error {
		for _, ev := range events {
			f, err := store.Decode[record.Federation](ev.KV)
			if ev.Deleted || err != nil {
				continue
			}
			if last[f.UID] != f.Phase {
				last[f.UID] = f.Phase
				out[rev] = append(out[rev], f.Phase)
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func TestSeveralServicesAreCreatedTogether(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.guard()
		req := batch(t, "one", "two", "three")
		req.IdempotencyKey = "k1"
		res, err := w.Federations.CreateServices(t.Context(), admin, req)
		if err != nil {
			t.Fatal(err)
		}
		if !res.Done || len(res.Federations) != 3 {
			t.Fatalf("%+v", res)
		}
		for i, f := range res.Federations {
			if f.Phase != record.PhaseReady || f.GroupID != req.Services[i].Name {
				t.Errorf("federation %d is %q, %s", i, f.GroupID, f.Phase)
			}
		}
		// Whatever they do, they do in one revision.
		for rev, phases := range w.phases() {
			if len(phases) != 3 || phases[0] != phases[1] || phases[1] != phases[2] {
				t.Errorf("revision %d: %v", rev, phases)
			}
		}
		again := batch(t, "one", "two", "three")
		again.IdempotencyKey = "k1"
		if got, err := w.Federations.CreateServices(t.Context(), admin, again); err != nil || !got.Replayed || len(got.Federations) != 3 ||
			got.Federations[2].UID != res.Federations[2].UID {
			t.Errorf("the same request again: %+v, %v", got, err)
		}
		// From now on each lives for itself.
		if _, err := w.Federations.DeleteService(t.Context(), admin, "two0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		page, err := w.Federations.List(t.Context(), admin, listing.Query{})
		if err != nil {
			t.Fatal(err)
		}
		if left, err := page.All(); err != nil || len(left) != 2 {
			t.Errorf("%d are left, %v", len(left), err)
		}
		if got, err := w.Federations.CreateServices(t.Context(), admin, again); err != nil || len(got.Federations) != 3 {
			t.Errorf("the outcome of the request, when one was deleted: %+v, %v", got, err)
		}
	})
}

func TestOneServiceThatIsRefusedLeavesNoneOfItsBatch(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(string, *record.Desired) *record.Observed
		code   fault.Code
		phase  record.Phase
	}{
		"in a vote":       {no(record.ReasonDoesNotFit), fault.CodeFailedPrecondition, record.PhaseAborted},
		"without a vote":  {silent, fault.CodeUnavailable, record.PhaseAborted},
		"when it is made": {failing, fault.CodeReplicaFailed, record.PhaseRolledBack},
		"a name is taken": {no(record.ReasonNameTaken), fault.CodeAlreadyExists, record.PhaseAborted},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				w.guard()
				w.clusters["b"].does(failsFor("two", tt.answer))
				req := batch(t, "one", "two", "three")
				req.IdempotencyKey = "k1"
				_, err := w.Federations.CreateServices(t.Context(), admin, req)
				if code := codeOf(t, err); code != tt.code {
					t.Errorf("code %s: %v", code, err)
				}
				e, _ := errors.AsType[*fault.Error](err)
				causes := 0
				for _, r := range e.Failed.Replicas {
					if r.Cause != nil {
						causes++
					}
				}
				if len(e.Failed.Replicas) != 9 || causes != 1 || e.Failed.Phase != tt.phase || e.Failed.Service != "two0" {
					t.Errorf("%d replicas, %d with a cause, %s of %s: %v", len(e.Failed.Replicas), causes, e.Failed.Phase, e.Failed.Service, err)
				}
				w.nothingLeft()
				again := batch(t, "one", "two", "three")
				again.IdempotencyKey = "k1"
				if _, got := w.Federations.CreateServices(t.Context(), admin, again); got == nil || got.Error() != err.Error() {
					t.Errorf("the same request again: %v, at first: %v", got, err)
				}
				w.clusters["b"].does(yes)
				if _, err := w.Federations.CreateServices(t.Context(), admin, batch(t, "one", "two", "three")); err != nil {
					t.Error("once the cause is gone:", err)
				}
			})
		})
	}
}

// A federation that is taken back on a cluster that does not answer holds up the outcome of no other.
func TestABatchIsRolledBackAlsoWhereNoneAnswers(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["b"].does(failsFor("two", failing))
		w.clusters["c"].does(func(service string, d *record.Desired) *record.Observed {
			if d.Intent == record.IntentDelete && strings.HasPrefix(service, "one") {
				return nil
			}
			return yes(service, d)
		})
		req := batch(t, "one", "two")
		req.Wait = 10 * time.Second
		_, err := w.Federations.CreateServices(t.Context(), admin, req)
		if code := codeOf(t, err); code != fault.CodeReplicaFailed {
			t.Error(err)
		}
		w.clusters["c"].does(yes)
		w.eventually(func() bool { return len(w.keys(record.NamesPrefix)) == 0 })
		w.nothingLeft()
	})
}

func TestADeletionOfOneServiceEndsTheCreationOfItsBatch(t *testing.T) {
	for _, phase := range []record.Intent{record.IntentPrepare, record.IntentApply} {
		t.Run(string(phase), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				w.clusters["b"].does(failsFor("two", func(service string, d *record.Desired) *record.Observed {
					if d.Intent == phase {
						return nil
					}
					return yes(service, d)
				}))
				req := batch(t, "one", "two")
				req.Wait = 0
				if _, err := w.Federations.CreateServices(t.Context(), admin, req); err != nil {
					t.Fatal(err)
				}
				w.eventually(func() bool { d, ok := w.desired("b", "two1"); return ok && d.Intent == phase })
				if _, err := w.Federations.DeleteService(t.Context(), admin, "one0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
					t.Fatal(err)
				}
				w.clusters["b"].does(yes)
				w.eventually(func() bool { return len(w.keys(record.NamesPrefix)) == 0 })
				w.nothingLeft()
			})
		})
	}
}

// Nothing is written before all services are found to be valid, alone and together.
func TestAllServicesOfABatchAreValidatedFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func([]*oscar.Service)
		path string
	}{
		"one names an unknown cluster": {func(s []*oscar.Service) { s[1].Federation.Members[0].ClusterID = "nowhere" }, "services[1].federation.members[0].cluster_id"},
		"two of one group":             {func(s []*oscar.Service) { s[1].Federation.GroupID = "one0" }, "services[1].federation.group_id"},
		"two at one place":             {func(s []*oscar.Service) { s[1].Federation.Members[1].ServiceName = "one2" }, "services[1].federation.members"},
		"one is best effort":           {func(s []*oscar.Service) { s[0].Federation.Deployment = oscar.DeploymentBestEffort }, "services[0].federation.deployment"},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				before := w.revision()
				req := batch(t, "one", "two")
				tt.edit(req.Services)
				_, err := w.Federations.CreateServices(t.Context(), admin, req)
				e, ok := errors.AsType[*fault.Error](err)
				if !ok || !slices.ContainsFunc(e.Violations, func(v oscar.Violation) bool { return v.Path == tt.path }) {
					t.Fatalf("%v: %+v", err, e)
				}
				if now := w.revision(); now != before {
					t.Errorf("%d revisions were written", now-before)
				}
			})
		})
	}
}

// largeBatch is a request for services with the most replicas together, each of at least one; as users send it, with a
// refresh token for each.
func largeBatch(t *testing.T, services, replicas int, token bool) federations.BatchRequest {
	t.Helper()
	var names []string
	for i := range services {
		names = append(names, fmt.Sprintf("s%dr", i))
	}
	req := batch(t, names...)
	for i, s := range req.Services {
		n := replicas / services
		if i < replicas%services {
			n++
		}
		s.Federation.Members = s.Federation.Members[:n-1]
		if token {
			s.Environment.Secrets = map[string]string{"refresh_token": "a-refresh-token"}
		}
	}
	return req
}

// eachLargeBatch runs a test with the largest batches that are accepted, of an administrator and of a user.
func eachLargeBatch(t *testing.T, test func(t *testing.T, w *world, caller identity.Caller, large func() federations.BatchRequest)) {
	for _, services := range []int{oscar.MaxBatch, oscar.MaxReplicas / 3} {
		for _, caller := range []identity.Caller{admin, {Subject: "ann"}} {
			t.Run(fmt.Sprintf("%d services for %s", services, caller.Subject), func(t *testing.T) {
				await.InVirtualTime(t, func(t *testing.T) {
					test(t, newWorld(t), caller, func() federations.BatchRequest {
						return largeBatch(t, services, oscar.MaxReplicas, !caller.Administrator)
					})
				})
			})
		}
	}
}

// A transaction of etcd takes 128 comparisons, and fewer writes the more comparisons it has: the largest batches keep to
// that in each of their steps.
func TestTheLargestBatches(t *testing.T) {
	eachLargeBatch(t, func(t *testing.T, w *world, caller identity.Caller, large func() federations.BatchRequest) {
		for _, answer := range []func(string, *record.Desired) *record.Observed{no(record.ReasonDoesNotFit), failing} {
			w.clusters["a"].does(failsFor("s5r", answer))
			req := large()
			req.IdempotencyKey = record.NewUID()
			if _, err := w.Federations.CreateServices(t.Context(), caller, req); codeOf(t, err) == fault.CodeTooLarge {
				t.Error(err)
			}
			w.eventually(func() bool { return len(w.keys(record.NamesPrefix)) == 0 })
			w.nothingLeft()
		}
		w.clusters["a"].does(yes)
		req := large()
		res, err := w.Federations.CreateServices(t.Context(), caller, req)
		if err != nil || len(res.Federations) != len(req.Services) {
			t.Fatal(err)
		}
	})
}

// A deletion ends the creation of the largest batches, too.
func TestADeletionOfOneServiceEndsTheLargestBatches(t *testing.T) {
	eachLargeBatch(t, func(t *testing.T, w *world, caller identity.Caller, large func() federations.BatchRequest) {
		w.clusters["a"].does(failsFor("s5r", silent))
		req := large()
		req.Wait, req.IdempotencyKey = 0, "create"
		if _, err := w.Federations.CreateServices(t.Context(), caller, req); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Federations.DeleteService(t.Context(), caller, "s7r0", federations.DeleteOptions{
			Wait: time.Minute, Repeat: request.Repeat{Key: "delete", Method: "DELETE", Path: "/system/services/s7r0"},
		}); err != nil {
			t.Error(err)
		}
		w.nothingLeft()
	})
}

func TestALargerBatchIsRefused(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		for _, req := range []federations.BatchRequest{
			largeBatch(t, oscar.MaxBatch+1, oscar.MaxBatch+1, false), largeBatch(t, oscar.MaxReplicas/3+1, oscar.MaxReplicas+1, false),
		} {
			if _, err := w.Federations.CreateServices(t.Context(), admin, req); codeOf(t, err) != fault.CodeInvalid {
				t.Errorf("%d services: %v", len(req.Services), err)
			}
		}
	})
}

// Whenever the instance dies, the next one ends what it began: all or none, and the same request has
// that outcome.
func TestABatchIsAllOrNoneWhenItsInstanceDies(t *testing.T) {
	for point, answer := range map[string]func(string, *record.Desired) *record.Observed{
		"after_specs": yes, "after_accept": yes, "before_commit": yes, "after_commit": yes, "before_ready": yes, "after_ready": yes,
		"before_abort": no(record.ReasonDoesNotFit), "after_abort": no(record.ReasonDoesNotFit),
		"before_roll_back": failing, "after_roll_back": failing, "before_rolled_back": failing, "after_rolled_back": failing,
	} {
		t.Run(point, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				w.guard()
				w.clusters["b"].does(failsFor("two", answer))
				w.stop()
				dead := w.mortal("controlplane." + point)
				send := func(wait time.Duration) (*federations.BatchResult, error) {
					req := batch(t, "one", "two", "three")
					req.IdempotencyKey, req.Wait = "k1", wait
					ctx, cancel := context.WithTimeout(t.Context(), wait)
					defer cancel()
					return w.Federations.CreateServices(ctx, admin, req)
				}
				_, _ = send(20 * time.Second)
				<-dead
				w.ControlPlane = w.second()
				res, err := send(time.Hour)
				all := w.keys(record.NamesPrefix)
				switch {
				case err == nil && (len(res.Federations) != 3 || len(all) != 3):
					t.Errorf("%d federations, names %v", len(res.Federations), all)
				case err != nil:
					w.eventually(func() bool { return len(w.keys(record.NamesPrefix)) == 0 })
					w.nothingLeft()
				}
				if ok := strings.Contains(point, "abort") || strings.Contains(point, "back"); ok == (err == nil) {
					t.Errorf("%v", err)
				}
			})
		})
	}
}
