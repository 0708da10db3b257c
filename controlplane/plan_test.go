package controlplane_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"

	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/plan"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// plan asks what a definition would do, and that asking writes nothing.
func (w *world) plan(body string) (*v1.Plan, error) {
	w.t.Helper()
	before := w.revision()
	plan, err := w.Plans.Make(w.t.Context(), admin, plan.Request{Service: send(w.t, body).Service})
	if now := w.revision(); now != before {
		w.t.Errorf("a plan cost %d revisions", now-before)
	}
	return plan, err
}

func (w *world) mustPlan(body string) *v1.Plan {
	w.t.Helper()
	plan, err := w.plan(body)
	if err != nil {
		w.t.Fatal(err)
	}
	return plan
}

// apply submits a definition bound to a plan, as the plan's action says.
func (w *world) apply(plan *v1.Plan, body string) error {
	w.t.Helper()
	if plan.Action == v1.PlanCreate {
		_, err := w.create(func(r *federations.CreateRequest) { *r = send(w.t, body); r.Plan = plan.Digest })
		return err
	}
	_, err := w.Federations.ChangeService(w.t.Context(), admin, federations.ChangeRequest{
		Service: send(w.t, body).Service, Plan: plan.Digest, Wait: time.Minute,
	})
	return err
}

// specs are the fingerprints of what each cluster is asked to run now, by
// cluster/service; the uid of a replica in created is new, as in a plan.
func (w *world) specs(created ...string) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for id := range w.clusters {
		items, _, err := w.store.List(w.t.Context(), record.DesiredServicesPrefix(id))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, kv := range items {
			d, err := store.Decode[record.Desired](kv)
			if err != nil || d.Tombstone() {
				continue
			}
			at, err := w.store.Get(w.t.Context(), record.SpecKey(id, d.Spec))
			if err != nil {
				w.t.Fatal(err)
			}
			spec, err := store.Decode[record.Spec](at)
			if err != nil {
				w.t.Fatal(err)
			}
			name, text := id+"/"+record.ParseKey(kv.Key).Name, string(spec.Service)
			if slices.Contains(created, name) {
				text = strings.NewReplacer(d.UID, "new", d.Federation, "new").Replace(text)
			}
			sum := sha256.Sum256([]byte(text))
			out[name] = "sha256:" + hex.EncodeToString(sum[:])
		}
	}
	return out
}

func named(plan *v1.Plan, action string) (names []string) {
	for _, r := range plan.Replicas {
		if r.Action == action {
			names = append(names, r.ClusterID+"/"+r.ServiceName)
		}
	}
	return names
}

func (w *world) wroteWhat(plan *v1.Plan) {
	w.t.Helper()
	got := w.specs(named(plan, v1.PlanCreate)...)
	for _, r := range plan.Replicas {
		name := r.ClusterID + "/" + r.ServiceName
		if got[name] != r.Spec {
			w.t.Errorf("%s was planned as %q and is written as %q", name, r.Spec, got[name])
		}
	}
}

func TestAPlanOfACreationIsWhatIsWritten(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		plan := w.mustPlan(body)
		if plan.Action != v1.PlanCreate || plan.Revision != 0 || plan.UID != "" || plan.NextGeneration != 1 || len(plan.Topology.EdgesAdded) != 6 || len(plan.Topology.EdgesRemoved) != 0 {
			t.Errorf("%+v", plan)
		}
		if got := named(plan, v1.PlanCreate); !slices.Equal(got, []string{"a/grayifyr0", "b/grayifyr1", "c/grayifyr2"}) {
			t.Errorf("created: %v", got)
		}
		for _, r := range plan.Replicas {
			if !r.Votes || len(r.Reasons) == 0 || r.Spec == "" {
				t.Errorf("%+v", r)
			}
		}
		if again := w.mustPlan(body); again.Digest != plan.Digest {
			t.Error("two plans of the same have two digests")
		}
		if err := w.apply(plan, body); err != nil {
			t.Fatal(err)
		}
		w.wroteWhat(plan)

		none := w.mustPlan(body)
		if none.Action != v1.PlanNone || len(named(none, v1.PlanNone)) != 3 || len(none.Fields) != 0 || none.NextGeneration != 1 {
			t.Errorf("%+v", none)
		}
		before := w.revision()
		if err := w.apply(none, body); err != nil || w.revision() != before {
			t.Errorf("nothing to do, and %d revisions: %v", w.revision()-before, err)
		}
	})
}

func TestAPlanOfAChangeSaysWhatAndWhy(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		first := strings.Replace(body, `"script"`, `"environment":{"secrets":{"KEEP":"hunter-1","TURN":"hunter-2"}},"script"`, 1)
		if _, err := w.create(func(r *federations.CreateRequest) { *r = send(t, first) }); err != nil {
			t.Fatal(err)
		}
		second := strings.NewReplacer(`"0.5Gi"`, `"1Gi"`, `"hunter-1"`, `""`, `"hunter-2"`, `"hunter-3"`,
			`"cluster_id":"c","service_name":"grayifyr2"`, `"cluster_id":"d","service_name":"grayifyr3"`).Replace(first)
		planned := w.mustPlan(second)
		if planned.Action != v1.PlanChange || planned.Generation != 1 || planned.NextGeneration != 2 || len(planned.Topology.EdgesAdded) != 4 || len(planned.Topology.EdgesRemoved) != 4 {
			t.Errorf("%+v", planned)
		}
		for action, want := range map[string]string{
			v1.PlanCreate: "[d/grayifyr3]", v1.PlanRemove: "[c/grayifyr2]", v1.PlanUpdate: "[a/grayifyr0 b/grayifyr1]",
		} {
			if got := fmt.Sprint(named(planned, action)); got != want {
				t.Errorf("%s: %s, want %s", action, got, want)
			}
		}
		update := planned.Replicas[0]
		wantReasons := []string{"memory, environment differ", "lists d/grayifyr3 as well", "lists c/grayifyr2 no more"}
		if update.ServiceName != "grayifyr0" || update.Votes || !slices.Equal(update.Reasons, wantReasons) {
			t.Errorf("%+v", update)
		}
		if len(update.Fields) != 1 || update.Fields[0].Path != "memory" || string(update.Fields[0].Before) != `"0.5Gi"` || string(update.Fields[0].After) != `"1Gi"` {
			t.Errorf("%+v", update.Fields)
		}
		if got := fmt.Sprint(update.Secrets); got != "[{environment.secrets.KEEP unchanged} {environment.secrets.TURN changed}]" {
			t.Errorf("secrets %s", got)
		}
		if all := fmt.Sprintf("%+v", planned); strings.Contains(all, "hunter") {
			t.Errorf("the plan shows a secret: %s", all)
		}
		if err := w.apply(planned, second); err != nil {
			t.Fatal(err)
		}
		kept := *planned
		kept.Replicas = slices.DeleteFunc(slices.Clone(planned.Replicas), func(r v1.PlanReplica) bool { return r.Action == v1.PlanRemove })
		w.wroteWhat(&kept)
	})
}

// Whatever happens between plan and apply: nothing at all is written.
func TestWhatChangedSinceThePlanIsRefused(t *testing.T) {
	other := strings.Replace(body, "0.5Gi", "1Gi", 1)
	third := strings.Replace(body, "0.5Gi", "2Gi", 1)
	removeC := federations.ReplicasRequest{Remove: nil, Wait: time.Minute}
	removeC.Remove = append(removeC.Remove, member("c", "grayifyr2"))
	tests := map[string]struct {
		before, planned string
		meanwhile       func(t *testing.T, w *world)
		applied         string
	}{
		"somebody else created it": {"", body, func(t *testing.T, w *world) { t.Helper(); w.mustCreate() }, body},
		"a cluster is cordoned": {"", body, func(t *testing.T, w *world) {
			t.Helper()
			if _, err := w.Clusters.SetState(t.Context(), admin, "c", "cordoned"); err != nil {
				t.Fatal(err)
			}
		}, body},
		"a cluster has another endpoint": {"", body, func(t *testing.T, w *world) {
			t.Helper()
			if _, err := w.Clusters.Update(t.Context(), admin, clusters.Spec{ClusterID: "a", Endpoint: "https://elsewhere.example.org", SSLVerify: true}); err != nil {
				t.Fatal(err)
			}
		}, body},
		"the definition is another one": {"", body, nil, other},
		"somebody changed it": {body, other, func(t *testing.T, w *world) {
			t.Helper()
			if _, err := w.changeReplicas(removeC); err != nil {
				t.Fatal(err)
			}
			w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("c"))) == 0 })
		}, other},
		"somebody changed it, and nothing was planned": {body, body, func(t *testing.T, w *world) {
			t.Helper()
			if _, err := w.changeReplicas(removeC); err != nil {
				t.Fatal(err)
			}
			w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("c"))) == 0 })
		}, body},
		"somebody wrote it, and everything is the same": {body, body, func(t *testing.T, w *world) {
			t.Helper()
			for _, paused := range []bool{true, false} {
				if _, err := w.Federations.Pause(t.Context(), admin, "grayifyr0", "", "", paused); err != nil {
					t.Fatal(err)
				}
			}
			w.settled("a/grayifyr0", "b/grayifyr1", "c/grayifyr2")
		}, body},
		"a header of an endpoint is another one": {body, withEndpoint(other, "one"), nil, withEndpoint(other, "two")},
		"it is gone": {body, other, func(t *testing.T, w *world) {
			t.Helper()
			if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}, other},
		"the definition of a change is another one": {body, other, nil, third},
		"a secret is another one": {body, strings.Replace(other, `"script"`, `"environment":{"secrets":{"K":"one"}},"script"`, 1), nil,
			strings.Replace(other, `"script"`, `"environment":{"secrets":{"K":"two"}},"script"`, 1)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				if tt.before != "" {
					w.mustCreate()
				}
				plan := w.mustPlan(tt.planned)
				if tt.meanwhile != nil {
					tt.meanwhile(t, w)
				}
				w.quiet()
				before := w.revision()
				err := w.apply(plan, tt.applied)
				if codeOf(t, err) != fault.CodeConflict {
					t.Error(err)
				}
				if now := w.revision(); now != before {
					t.Errorf("a refused plan cost %d revisions", now-before)
				}
			})
		})
	}
}

func withEndpoint(body, header string) string {
	return strings.Replace(body, `"members":[`, `"members":[{"type":"endpoint","url":"https://e.example.org","headers":{"X-Key":"`+header+`"}},`, 1)
}

// settled waits until each place has answered its desired record as it stands.
func (w *world) settled(places ...string) {
	w.t.Helper()
	for _, place := range places {
		cluster, service, _ := strings.Cut(place, "/")
		w.eventually(func() bool {
			d, err := w.store.Get(w.t.Context(), record.DesiredServiceKey(cluster, service))
			if err != nil {
				return false
			}
			o, err := w.store.Get(w.t.Context(), record.ObservedServiceKey(cluster, service))
			if err != nil {
				return false
			}
			seen, err := store.Decode[record.Observed](o)
			return err == nil && seen.DesiredRevision == d.ModRevision
		})
	}
}

// quiet waits until nothing is under way any more.
func (w *world) quiet() {
	w.t.Helper()
	w.eventually(func() bool {
		page, err := w.Federations.List(w.t.Context(), admin, listing.Query{})
		if err != nil {
			return false
		}
		all, err := page.All()
		return err == nil && !slices.ContainsFunc(all, func(f *view.Federation) bool { return f.Phase != record.PhaseReady })
	})
}

func TestAnUnrelatedClusterDoesNotOutdateAPlan(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		plan := w.mustPlan(body)
		w.addCluster("d")
		if err := w.apply(plan, body); err != nil {
			t.Fatal(err)
		}
		w.wroteWhat(plan)
	})
}

func TestAPlanIsItsMakersAlone(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		planned, err := w.Plans.Make(t.Context(), identity.Caller{Subject: "alice"}, plan.Request{Service: send(t, usersBody).Service})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.apply(planned, body); codeOf(t, err) != fault.CodeConflict {
			t.Error("somebody else's plan was applied:", err)
		}
		w.mustCreate()
		_, err = w.Plans.Make(t.Context(), identity.Caller{Subject: "alice"}, plan.Request{Service: send(t, usersBody).Service})
		if codeOf(t, err) != fault.CodeAlreadyExists {
			t.Error("a plan over somebody else's service:", err)
		}
	})
}

// A plan is refused as what it plans would be.
func TestAPlanIsRefusedAsApplyWouldBe(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		for name, bad := range map[string]string{
			"unknown cluster": strings.Replace(body, `"cluster_id":"c"`, `"cluster_id":"z"`, 1),
			"two violations":  strings.NewReplacer(`"mesh"`, `"ring"`, `"0.5Gi"`, `"lots"`).Replace(body),
		} {
			_, planned := w.plan(bad)
			_, created := w.create(func(r *federations.CreateRequest) { *r = send(t, bad) })
			if codeOf(t, planned) != fault.CodeInvalid || fmt.Sprintf("%+v", planned) != fmt.Sprintf("%+v", created) {
				t.Errorf("%s: planned %+v, created %+v", name, planned, created)
			}
		}
		w.mustCreate()
		w.clusters["c"].does(silent)
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := w.Plans.Make(t.Context(), admin, plan.Request{Service: send(t, body).Service})
		if codeOf(t, err) != fault.CodeAlreadyExists || !strings.Contains(err.Error(), ": a deletion of a service of this name waits") {
			t.Error("the plan does not say that a tombstone holds the name:", err)
		}
		w.clusters["c"].does(yes)
		w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("c"))) == 0 })
	})
}

func TestAPlanWarns(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		w.clusters["b"].disconnect()
		w.eventually(func() bool {
			b, err := w.Clusters.Get(t.Context(), admin, "b")
			return err == nil && b.LastSeen != nil // the last that is written of it
		})
		if _, err := w.Clusters.SetState(t.Context(), admin, "c", "cordoned"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Federations.Pause(t.Context(), admin, "grayifyr0", "", "", true); err != nil {
			t.Fatal(err)
		}
		plan, err := w.Plans.Make(t.Context(), admin, plan.Request{Service: send(t, strings.Replace(body, "0.5Gi", "1Gi", 1)).Service})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, warning := range plan.Warnings {
			got = append(got, fmt.Sprintf("%s %s", warning.ClusterID, warning.Reason))
		}
		slices.Sort(got)
		if want := " Paused, b SessionLost, c "; strings.Join(got, ", ") != want {
			t.Errorf("%q, want %q", strings.Join(got, ", "), want)
		}
	})
}
