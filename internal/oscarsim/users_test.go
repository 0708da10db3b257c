package oscarsim_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

// A user starts Jobs of a service that he sees, once an earlier call has prepared his
// MinIO user, and while OSCAR lets him in.
func TestJobsOfUsers(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{Users: physicist, Groups: []string{"physics"}})
	if err := sim.PutService(`{"name":"open","image":"i","script":"s","visibility":"public"}`); err != nil {
		t.Fatal(err)
	}
	ask := func(method, path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader("e"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer sim.alice.z")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if status, body := ask(http.MethodPost, "/job/open"); status != http.StatusForbidden || body != "MinIO user not provisioned for alice; submit a direct request first" {
		t.Errorf("before her first call: %d %q", status, body)
	}
	if status, body := ask(http.MethodGet, "/system/services"); status != http.StatusOK {
		t.Fatalf("%d %q", status, body)
	}
	if status, body := ask(http.MethodPost, "/job/open"); status != http.StatusCreated || body != "" || len(sim.Jobs("open")) != 1 {
		t.Errorf("%d %q, %d Jobs", status, body, len(sim.Jobs("open")))
	}
	sim.Deny("alice", true)
	if status, body := ask(http.MethodPost, "/job/open"); status != http.StatusUnauthorized || body != "" || len(sim.Jobs("open")) != 1 {
		t.Errorf("out of the group: %d %q", status, body)
	}
}
