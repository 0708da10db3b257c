package controlplane_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/test/await"
)

// replaceBy is a PUT of a definition.
func (w *world) replaceBy(body string) error {
	_, err := w.Federations.ChangeService(w.t.Context(), admin, federations.ChangeRequest{Service: send(w.t, body).Service, Wait: time.Minute})
	return err
}

// memberClusters are where the federation is.
func (w *world) memberClusters() string {
	w.t.Helper()
	var out []string
	for _, m := range w.onlyFederation().Members {
		out = append(out, m.ClusterID)
	}
	return strings.Join(out, " ")
}

// TestAPutWithoutSecretsKeepsThem: OSCAR leaves the Secret alone when it is sent none, and its dashboard's editor sends none.
func TestAPutWithoutSecretsKeepsThem(t *testing.T) {
	const values = `{"KEY":"a-secret-of-the-test"}`
	with := func(environment string) string {
		return strings.Replace(body, `"script"`, `"environment":`+environment+`,"script"`, 1)
	}
	for _, tt := range []struct {
		name, then string
		keeps      bool
	}{
		{"no environment", strings.Replace(body, "0.5Gi", "1Gi", 1), true},
		{"no secrets", with(`{"variables":{"A":"b"}}`), true},
		{"null", with(`{"variables":{"A":"b"},"secrets":null}`), true},
		{"an empty object", with(`{"secrets":{}}`), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				if _, err := w.Federations.CreateService(t.Context(), admin, send(t, with(`{"secrets":`+values+`}`))); err != nil {
					t.Fatal(err)
				}
				want, change := map[string]string(nil), "removed"
				if tt.keeps {
					want, change = map[string]string{"KEY": "a-secret-of-the-test"}, "unchanged"
				}
				if p := w.mustPlan(tt.then); len(p.Secrets) != 1 || p.Secrets[0].Change != change {
					t.Errorf("the plan says %+v", p.Secrets)
				}
				if err := w.replaceBy(tt.then); err != nil {
					t.Fatal(err)
				}
				for _, cluster := range []string{"a", "b", "c"} {
					if got := w.clusters[cluster].secrets(); !maps.Equal(got, want) {
						t.Errorf("%s has %v", cluster, got)
					}
				}
				// What was removed does not come back, and what was kept is in the history.
				if err := w.replaceBy(body); err != nil {
					t.Fatal(err)
				}
				if got := w.clusters["b"].secrets(); !maps.Equal(got, want) {
					t.Errorf("one change later it has %v", got)
				}
				h, err := w.Federations.History(t.Context(), admin, "grayifyr0", "")
				if _, kept := h[0].Service.Environment.Secrets["KEY"]; err != nil || kept != tt.keeps {
					t.Errorf("%v %v", h[0].Service.Environment, err)
				}
			})
		})
	}
}

// TestAPutWithoutAFederationKeepsIt: clients of OSCAR v3 send no federation, and are told that members can be added
// besides.
func TestAPutWithoutAFederationKeepsIt(t *testing.T) {
	const alone = `{"name":"grayifyr0","image":"ghcr.io/grycap/imagemagick","memory":"2Gi","script":"#!/bin/sh\n"`
	const added = `,"federation":{"topology":"mesh","delegation":"random","group_id":"grayify","members":[{"cluster_id":"b","service_name":"grayifyr1","priority":3}],"weights":{"b":2}}}`
	for _, tt := range []struct {
		name, made, then string
		members, want    string
	}{
		{"none", alone + added, alone + `}`, "a b", `"topology":"mesh","delegation":"random"`},
		{"what oscar-cli sends", alone + added, alone + `,"replicas":null,"delegation":"static","rescheduler_threshold":0}`, "a b", `"topology":"mesh","delegation":"random"`},
		{"a policy of v3", alone + added, alone + `,"rescheduler_threshold":30}`, "a b", `"delegation":"random","rescheduler_threshold":30`},
		{"an empty one", alone + added, alone + `,"federation":{}}`, "a", `"topology":"none"`},
		{"no members", alone + added, alone + `,"federation":{"topology":"mesh","members":[]}}`, "a", `"topology":"mesh"`},
		{"no replicas", alone + added, alone + `,"replicas":[]}`, "a", `"topology":"none"`},
		{"members that are added since", alone + `}`, alone + `}`, "a b", `"topology":"star"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t)
				if _, err := w.Federations.CreateService(t.Context(), admin, send(t, strings.Replace(tt.made, "2Gi", "1Gi", 1))); err != nil {
					t.Fatal(err)
				}
				if tt.made == tt.then {
					if _, err := w.changeReplicas(federations.ReplicasRequest{Add: []oscar.Member{member("b", "grayifyr1")}}); err != nil {
						t.Fatal(err)
					}
				}
				removed := strings.Count(tt.members, "b") == 0
				p := w.mustPlan(tt.then)
				if planned := slices.ContainsFunc(p.Replicas, func(r v1.PlanReplica) bool { return r.Action == v1.PlanRemove }); planned != removed {
					t.Errorf("the plan: %+v", p.Replicas)
				}
				if err := w.apply(p, tt.then); err != nil {
					t.Fatal(err)
				}
				members := w.memberClusters()
				s, _, err := w.Federations.Service(t.Context(), admin, "grayifyr0", "")
				if err != nil || members != tt.members || s.Memory != "2Gi" {
					t.Fatalf("members %v, %+v, %v", members, s, err)
				}
				text, err := s.MarshalJSON()
				if err != nil || !strings.Contains(string(text), tt.want) || !removed && strings.Contains(tt.made, "weights") && !strings.Contains(string(text), `"weights":{"b":2}`) {
					t.Errorf("%s %v", text, err)
				}
			})
		})
	}
}

// TestARollbackToADefinitionWithoutAFederationRemovesTheMembers: an older definition is whole.
func TestARollbackToADefinitionWithoutAFederationRemovesTheMembers(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.Federations.CreateService(t.Context(), admin, send(t, `{"name":"grayifyr0","image":"i","script":"s"}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.changeReplicas(federations.ReplicasRequest{Add: []oscar.Member{member("b", "grayifyr1")}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Federations.Rollback(t.Context(), admin, "grayifyr0", "", 1, federations.ChangeRequest{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if got := w.memberClusters(); got != "a" {
			t.Errorf("members %s", got)
		}
	})
}

// TestARollbackToADefinitionWithoutSecretsRemovesThem: an older definition is whole.
func TestARollbackToADefinitionWithoutSecretsRemovesThem(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		if err := w.replaceBy(strings.Replace(body, `"script"`, `"environment":{"secrets":{"KEY":"a-secret-of-the-test"}},"script"`, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Federations.Rollback(t.Context(), admin, "grayifyr0", "", 1, federations.ChangeRequest{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if got := w.clusters["b"].secrets(); len(got) != 0 {
			t.Errorf("it has %v", got)
		}
	})
}
