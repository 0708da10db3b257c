package invariants_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// ask sends a request to a simulated OSCAR, as somebody who may do everything.
func ask(t *testing.T, sim *oscarsim.Sim, method, path, body string) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, path, bytes.NewBufferString(body))
	req.SetBasicAuth("oscar", "pw")
	rec := httptest.NewRecorder()
	sim.Handler().ServeHTTP(rec, req)
	if rec.Code >= http.StatusBadRequest {
		t.Logf("%s %s: %d %s", method, path, rec.Code, rec.Body)
	}
}

func TestCanariesAreCheckedAtTheEnd(t *testing.T) {
	const bucket = `{"storage_provider":"minio.default","path":"crash00/in"}`
	for name, tt := range map[string]struct {
		touch func(t *testing.T, sim *oscarsim.Sim)
		sees  string // a part of what is reported; empty: nothing may be
	}{
		"nobody touches them": {func(*testing.T, *oscarsim.Sim) {}, ""},
		"work under the own names": {func(t *testing.T, sim *oscarsim.Sim) {
			def := strings.ReplaceAll(`{"name":"crash0","image":"i","script":"s","input":[`+bucket+`]}`, "crash00", "crash0")
			ask(t, sim, http.MethodPost, "/system/services", def)
			ask(t, sim, http.MethodDelete, "/system/services/crash0", "")
		}, ""},
		"a service is deleted, its bucket with it": {func(t *testing.T, sim *oscarsim.Sim) {
			ask(t, sim, http.MethodDelete, "/system/services/crash00", "")
		}, "Services"},
		"a service is changed": {func(t *testing.T, sim *oscarsim.Sim) {
			ask(t, sim, http.MethodPut, "/system/services", `{"name":"crash","image":"other","script":"s"}`)
		}, "example.org/foreign"},
		"a change is undone": {func(t *testing.T, sim *oscarsim.Sim) {
			before, _ := sim.Service("crash")
			ask(t, sim, http.MethodPut, "/system/services", string(before.JSON))
		}, "was called for the foreign service"},
		"a bucket is deleted by a service that names it": {func(t *testing.T, sim *oscarsim.Sim) {
			ask(t, sim, http.MethodPost, "/system/services", `{"name":"mine","image":"i","script":"s","federation":{"topology":"mesh"},
"annotations":{"oscar.grycap/federation-worker":"true"},"input":[`+strings.ReplaceAll(bucket, "crash00", "crash0-in")+`]}`)
			ask(t, sim, http.MethodDelete, "/system/services/mine", "")
		}, "crash0-in"},
		"an object appears": {func(_ *testing.T, sim *oscarsim.Sim) {
			sim.PutBucket("crash0-in", "new")
		}, "new"},
		"a job ends": {func(t *testing.T, sim *oscarsim.Sim) {
			if err := sim.SetJobStatus("crash00", sim.Jobs("crash00")[0].Name, oscarsim.JobFailed); err != nil {
				t.Fatal(err)
			}
		}, oscarsim.JobFailed},
	} {
		t.Run(name, func(t *testing.T) {
			sims := []*oscarsim.Sim{
				oscarsim.New(oscarsim.Config{ClusterID: "a", User: "oscar", Password: "pw"}),
				oscarsim.New(oscarsim.Config{ClusterID: "b", User: "oscar", Password: "pw"}),
			}
			r := &recorder{TB: t}
			invariants.PlantCanaries(r, []string{"crash0", "crash1"}, sims...)
			tt.touch(t, sims[1])
			got := r.end()
			if tt.sees == "" {
				if len(got) > 0 {
					t.Error(got)
				}
				return
			}
			if !strings.Contains(strings.Join(got, "\n"), tt.sees) {
				t.Errorf("%q is not in what was reported: %q", tt.sees, got)
			}
		})
	}
}
