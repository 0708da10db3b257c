package controlplane_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestAPutWithAClusterAwayDoesNotTakeItsWholeWait: the wait is an hour, and the
// test would not live to see its end.
func TestAPutWithAClusterAwayDoesNotTakeItsWholeWait(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		w.clusters["c"].does(silent)
		w.clusters["c"].disconnect()
		w.eventually(func() bool { c, err := w.Clusters.Get(t.Context(), admin, "c"); return err == nil && !c.Alive })
		s := send(t, strings.Replace(body, "0.5Gi", "1Gi", 1)).Service
		res, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: time.Hour})
		if err != nil || len(res.Away) != 1 || res.Away[0].ClusterID != "c" || res.Away[0].Status.Phase != record.PhaseUnreachable {
			t.Fatalf("%+v %v", res, err)
		}
		req := federations.ReplicasRequest{Remove: []oscar.Member{member("b", "grayifyr1")}, Wait: time.Hour}
		res, err = w.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", req)
		if err != nil || len(res.Away) != 1 || len(w.keys(record.DesiredServicesPrefix("b"))) != 0 {
			t.Fatalf("%+v %v, %v", res, err, w.keys(record.DesiredServicesPrefix("b")))
		}
	})
}

// TestAPutOnAPausedFederationDoesNotTakeItsWholeWait: nobody will apply it.
func TestAPutOnAPausedFederationDoesNotTakeItsWholeWait(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		for _, id := range []string{"a", "b", "c"} {
			w.clusters[id].does(silent) // as a syncer is that was paused
		}
		if _, err := w.Federations.Pause(t.Context(), admin, "grayifyr0", "", "", true); err != nil {
			t.Fatal(err)
		}
		s := send(t, strings.Replace(body, "0.5Gi", "1Gi", 1)).Service
		res, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: time.Hour})
		if err != nil || len(res.Away) != 3 || res.Away[0].Status.Phase != record.PhasePending || res.Away[0].Status.Reason != record.ReasonPaused {
			t.Fatalf("%+v %v", res, err)
		}
	})
}

// TestGetAndPutOfTheSameRaisesNoGeneration: what GET fills in is no change.
func TestGetAndPutOfTheSameRaisesNoGeneration(t *testing.T) {
	for name, definition := range map[string]string{
		"a federation": strings.Replace(body, `"script"`, `"environment":{"secrets":{"KEY":"a-secret-of-the-test"}},
			"storage_providers":{"minio":{"far":{"endpoint":"https://far","access_key":"ak","secret_key":"sk-of-the-test"}}},"allowed_users":[" u "],"script"`, 1),
		"paths of one bucket": strings.NewReplacer("grayifyr0/in", "in", "grayifyr0/out", "/out/").Replace(body),
		"a service alone":     `{"name":"grayifyr0","image":"i","script":"s\r\n"}`,
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				if _, err := w.Federations.CreateService(t.Context(), admin, send(t, definition)); err != nil {
					t.Fatal(err)
				}
				before := w.revision()
				s, revision, err := w.Federations.Service(t.Context(), admin, "grayifyr0", "")
				if err != nil {
					t.Fatal(err)
				}
				sent, err := s.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				res, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: send(t, string(sent)).Service, Wait: time.Minute})
				if err != nil || res.Replicas.Generation != 1 || res.Replicas.Revision != revision || w.revision() != before {
					t.Errorf("%+v %v, %d revisions", res, err, w.revision()-before)
				}
				// And something else is one.
				s.Memory = "3Gi"
				res, err = w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: time.Minute})
				if err != nil || res.Replicas.Generation != 2 {
					t.Errorf("%+v %v", res, err)
				}
			})
		})
	}
}

// TestViolationsOfAMemberNameItsPlaceInTheRequest and not in the definition that
// the control plane made of it.
func TestViolationsOfAMemberNameItsPlaceInTheRequest(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.addCluster("d")
		w.addCluster("e")
		w.mustCreate()
		if _, err := w.Clusters.SetState(t.Context(), admin, "d", "cordoned"); err != nil {
			t.Fatal(err)
		}
		many := []oscar.Member{}
		for i := range oscar.MaxReplicas {
			many = append(many, member("b", "s"+strings.Repeat("x", i%30)+string(rune('a'+i/30))))
		}
		tests := []struct {
			name string
			req  federations.ReplicasRequest
			want string
		}{
			{"cordoned", federations.ReplicasRequest{List: "replicas", Add: []oscar.Member{member("e", "grayifyr4"), member("d", "grayifyr3")}}, "replicas[1].cluster_id known_cluster"},
			{"in the oldest form", federations.ReplicasRequest{Add: []oscar.Member{member("d", "grayifyr3")}}, "[0].cluster_id known_cluster"},
			{"the coordinator", federations.ReplicasRequest{List: "members", Add: []oscar.Member{member("e", "grayifyr4"), member("a", "grayifyr0")}}, "members[1] no_self"},
			{"one that is there", federations.ReplicasRequest{List: "update", Replace: []federations.Replacement{
				{From: member("b", "grayifyr1"), To: member("c", "grayifyr2")}}}, "update[0] unique"},
			{"too many", federations.ReplicasRequest{List: "replicas", Add: many}, "replicas max_members"},
		}
		for _, tt := range tests {
			_, err := w.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", tt.req)
			e, ok := err.(*fault.Error)
			if !ok || len(e.Violations) == 0 {
				t.Errorf("%s: %v", tt.name, err)
				continue
			}
			var got []string
			for _, v := range e.Violations {
				got = append(got, v.Path+" "+v.Rule)
				if strings.Contains(v.Path+v.Message, "federation.members") {
					t.Errorf("%s: %+v", tt.name, v)
				}
			}
			if !slices.Contains(got, tt.want) {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
	})
}

// TestARemovedMemberTakesTheOrdersOfItsRemoval: its buckets and jobs go when the
// owner says so, and also when he says so later.
func TestARemovedMemberTakesTheOrdersOfItsRemoval(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		for _, id := range []string{"b", "c"} {
			w.clusters[id].does(silent)
		}
		orders := func(cluster, service string) string {
			kv, err := w.store.Get(t.Context(), record.DesiredServiceKey(cluster, service))
			if err != nil {
				t.Fatal(err)
			}
			d, err := store.Decode[record.Desired](kv)
			if err != nil || !d.Tombstone() {
				t.Fatalf("%+v %v", d, err)
			}
			return d.Data + " " + d.Jobs
		}
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr1", federations.DeleteOptions{Data: "delete", Jobs: "cancel"}); err != nil {
			t.Fatal(err)
		}
		if got := orders("b", "grayifyr1"); got != "delete cancel" {
			t.Errorf("b has the orders %q", got)
		}
		remove := federations.ReplicasRequest{Remove: []oscar.Member{member("c", "grayifyr2")}}
		for _, step := range []struct{ jobs, want string }{{"", " "}, {"cancel", " cancel"}, {"cancel", " cancel"}} {
			remove.Jobs = step.jobs
			before := orders("b", "grayifyr1")
			if _, err := w.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", remove); err != nil {
				t.Fatal(err)
			}
			if got := orders("c", "grayifyr2"); got != step.want || orders("b", "grayifyr1") != before {
				t.Errorf("c has the orders %q, want %q; b %q", got, step.want, orders("b", "grayifyr1"))
			}
		}
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr2", federations.DeleteOptions{Data: "delete"}); err != nil {
			t.Fatal(err)
		}
		if got := orders("c", "grayifyr2"); got != "delete cancel" {
			t.Errorf("c has the orders %q", got)
		}
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr2", federations.DeleteOptions{}); codeOf(t, err) != fault.CodeNotFound {
			t.Error(err)
		}
	})
}

func TestADeletionBoundToAnOldRevisionIsAConflict(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		_, old, err := w.Federations.Service(t.Context(), admin, "grayifyr0", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.changeReplicas(federations.ReplicasRequest{Remove: []oscar.Member{member("c", "grayifyr2")}}); err != nil {
			t.Fatal(err)
		}
		for _, service := range []string{"grayifyr0", "grayifyr1"} {
			if _, err := w.Federations.DeleteService(t.Context(), admin, service, federations.DeleteOptions{IfMatch: old}); codeOf(t, err) != fault.CodeConflict {
				t.Errorf("%s: %v", service, err)
			}
			w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("c"))) == 0 })
			_, now, err := w.Federations.Service(t.Context(), admin, service, "")
			if err != nil {
				t.Fatal(err)
			}
			if service == "grayifyr1" {
				if _, err := w.Federations.DeleteService(t.Context(), admin, service, federations.DeleteOptions{IfMatch: now, Wait: time.Minute}); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestEtcdIsBlamedForAChangeThatWaitsBehindAnothersVote: that change has all the time that
// a silent cluster has.
func TestEtcdIsBlamedForAChangeThatWaitsBehindAnothersVote(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(c *controlplane.Config) { c.PrepareDeadline = time.Hour })
		w.addCluster("d").does(silent)
		w.addCluster("e")
		w.mustCreate()
		voted := make(chan error, 1)
		go func() {
			_, err := w.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", federations.ReplicasRequest{Add: []oscar.Member{member("d", "grayifyr3")}, RequestID: "the-first"})
			voted <- err
		}()
		w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("d"))) == 1 })
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		_, err := w.Federations.ChangeReplicas(ctx, admin, "grayifyr0", federations.ReplicasRequest{Add: []oscar.Member{member("e", "grayifyr4")}})
		cancel()
		if code := codeOf(t, err); code != fault.CodeUnavailable || strings.Contains(err.Error(), "etcd") || !strings.Contains(err.Error(), "the-first") {
			t.Errorf("%s: %v", code, err)
		}
		w.clusters["d"].does(yes)
		if err := <-voted; err != nil {
			t.Error(err)
		}
	})
}
