package controlplane_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/test/await"
)

// replaceBy is a PUT of a definition.
func (w *world) replaceBy(body string) error {
	_, err := w.Federations.ChangeService(w.t.Context(), admin, federations.ChangeRequest{Service: send(w.t, body).Service, Wait: time.Minute})
	return err
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
