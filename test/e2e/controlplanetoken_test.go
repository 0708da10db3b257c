package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestATokenWorksOnAfterItsServiceBecamePrivate: a user that could see a service has its
// tokens, and the control plane accepts none of them once he may not see it any more.
func TestATokenWorksOnAfterItsServiceBecamePrivate(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(o *world.Options) { o.Sim = world.QuickJobs })
		public := strings.Replace(body, `"cpu"`, `"visibility":"public","cpu"`, 1)
		if _, err := create(w, public); err != nil {
			t.Fatal(err)
		}
		life := func() string {
			v, ok := w.Cluster(a).Sim.Service(names[0])
			if !ok {
				t.Fatal("the service is not there")
			}
			return v.Token
		}
		shown := func() string {
			s, _, err := w.CP.Federations.Service(t.Context(), admin, names[0], "")
			if err != nil {
				t.Fatal(err)
			}
			return s.Token
		}
		sends := func(when, token string, want int) http.Header {
			t.Helper()
			status, header, answer := w.Raw(http.MethodPost, "/job/"+names[0], `{"n":1}`, "Bearer "+token)
			if status != want {
				t.Errorf("%s: %d %s", when, status, answer)
			}
			if read, _, _ := w.Raw(http.MethodGet, "/system/replicas/"+names[0], "", "Bearer "+token); (read == http.StatusOK) != (want == http.StatusCreated) {
				t.Errorf("%s, its replicas: %d", when, read)
			}
			return header
		}

		mark, door := life(), shown()
		if mark == door {
			t.Error("the control plane shows the token that OSCAR keeps")
		}
		if h := sends("the shown token", door, http.StatusCreated); h.Get("Warning") != "" {
			t.Errorf("it warns: %s", h.Get("Warning"))
		}
		if h := sends("the token of the life", mark, http.StatusCreated); !strings.Contains(h.Get("Warning"), "use the one that GET /system/services") {
			t.Errorf("it does not warn: %q", h.Get("Warning"))
		}

		if _, err := w.CP.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: world.Service(t, body), Wait: limit}); err != nil {
			t.Fatal(err)
		}
		sends("the shown token, after it became private", door, http.StatusUnauthorized)
		sends("the token of the life, after it became private", mark, http.StatusUnauthorized)
		second := shown()
		sends("the new one", second, http.StatusCreated)

		if _, err := w.Client.RotateToken(t.Context(), names[0], ""); err != nil {
			t.Fatal(err)
		}
		sends("the one before the rotation", second, http.StatusUnauthorized)
		sends("the one after it", shown(), http.StatusCreated)
		if life() != mark {
			t.Error("the service was made again, or has another mark")
		}
		w.AwaitJob(w.Submit(names[0], `{"n":2}`), record.JobSucceeded)

		// Wider visibility, and other changes, leave all tokens valid.
		third := shown()
		if _, err := w.CP.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: world.Service(t, public), Wait: limit}); err != nil {
			t.Fatal(err)
		}
		sends("after it became public again", third, http.StatusCreated)
	})
}
