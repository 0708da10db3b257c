package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/await"
)

// A restart goes to all members by the coordinator's name, and to one by its own.
func TestAServiceIsRestartedOnItsMembers(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.AwaitStreams(w.CP)
		restarted := func() (out []string) {
			for _, id := range []string{a, b, c} {
				if slices.ContainsFunc(w.Cluster(id).Sim.Log(), func(call oscarsim.Call) bool { return call.Op == oscarsim.OpRestart && call.Status == 200 }) {
					out = append(out, id)
				}
			}
			return out
		}
		if _, err := create(w, strings.Replace(body, `"image":`, `"expose":{"api_port":[80]},"image":`, 1)); err != nil {
			t.Fatal(err)
		}
		if status, header, text := w.Do(http.MethodPost, "/system/services/"+names[1]+"/restart", ""); status != 200 || header.Get("Oscarfed-Missing") != "" ||
			!strings.HasPrefix(text, `{"service_name":"`+names[1]+`"`) || !slices.Equal(restarted(), []string{b}) {
			t.Errorf("one: %d %s, restarted at %v", status, text, restarted())
		}
		if status, _, text := w.Do(http.MethodPost, "/system/services/"+names[0]+"/restart", ""); status != 200 || !slices.Equal(restarted(), []string{a, b, c}) {
			t.Errorf("all: %d %s, restarted at %v", status, text, restarted())
		}
		if status, _, _ := w.Do(http.MethodPost, "/system/services/svc-none/restart", ""); status != 404 {
			t.Errorf("one that is not there: %d", status)
		}
		if status, _, text := w.Do(http.MethodPost, "/system/services", `{"name":"plain0","image":"i","script":"s"}`); status != 201 {
			t.Fatalf("%d %s", status, text)
		}
		if status, _, text := w.Do(http.MethodPost, "/system/services/plain0/restart", ""); status != 400 || !strings.Contains(text, `service "plain0" is not exposed`) {
			t.Errorf("one that is not exposed: %d %s", status, text)
		}
		for _, id := range []string{a, b, c} {
			if err := w.Cluster(id).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpRestart, Fault: oscarsim.FaultCrash}); err != nil {
				t.Fatal(err)
			}
		}
		if status, _, text := w.Do(http.MethodPost, "/system/services/"+names[0]+"/restart", ""); status != 504 || !strings.Contains(text, "send it again") {
			t.Errorf("without an answer: %d %s", status, text)
		}
	})
}
