package faults_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestOscarCLIsRetryInTheMiddleOfACreate: oscar-cli gives up after 20 s, long before a
// queue of creates is done. Its user runs apply again, and that is: GET the service,
// 200, so PUT. While the creation is under way the PUT is a clean refusal, and the
// creation ends as one service on each cluster; afterwards the same is a change.
func TestOscarCLIsRetryInTheMiddleOfACreate(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]oscarsim.Fault{
		"while the OSCARs create":  {Op: oscarsim.OpCreate, Fault: oscarsim.FaultHang},
		"while a cluster is asked": {Op: oscarsim.OpList, Fault: oscarsim.Fault500},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t, world.Options{})
				sim := w.Cluster("oscar-cluster-c").Sim
				if err := sim.SetFault(fault); err != nil {
					t.Fatal(err)
				}
				apply := func(ctx context.Context) (method string, status int, text string) {
					status, _ = request(ctx, t, w, http.MethodGet, "/system/services/alpha0", "")
					method = http.MethodPost
					if status == http.StatusOK {
						method = http.MethodPut
					}
					status, text = request(ctx, t, w, method, "/system/services", fdl("alpha", "256Mi"))
					return method, status, text
				}
				impatient, cancel := context.WithCancel(t.Context())
				defer cancel()
				gaveUp := make(chan struct{})
				go func() {
					defer close(gaveUp)
					if method, status, _ := apply(impatient); method != http.MethodPost || status != 0 {
						t.Errorf("the first %s was answered %d before its client gave up", method, status)
					}
				}()
				w.Eventually("the creation is under way", func() bool {
					v, err := w.Client.Replicas(t.Context(), "alpha0", "")
					return err == nil && (v.Phase == "applying" || v.Phase == "preparing")
				})
				cancel()
				<-gaveUp
				method, status, text := apply(t.Context())
				if method != http.MethodPut || status != http.StatusConflict || !strings.Contains(text, "wait for its outcome") {
					t.Errorf("%s in the middle was answered %d %s", method, status, text)
				}
				sim.ClearFaults()
				stands(w, "alpha", "256Mi")
				if v, err := w.Client.Replicas(t.Context(), "alpha0", ""); err != nil || v.Generation != 1 {
					t.Errorf("the retry left its mark: %+v %v", v, err)
				}
				if method, status, text := apply(t.Context()); method != http.MethodPut || status != http.StatusNoContent {
					t.Errorf("%s afterwards was answered %d %s", method, status, text)
				}
				stands(w, "alpha", "256Mi")
			})
		})
	}
}

// request is one of a client that knows nothing of ours. The status is 0 when it
// gave up.
func request(ctx context.Context, t *testing.T, w *world.World, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, w.API+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(world.User, world.Password)
	resp, err := w.HTTP().Do(req)
	if errors.Is(err, context.Canceled) {
		return 0, ""
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text := make([]byte, 4096)
	n, _ := resp.Body.Read(text)
	return resp.StatusCode, string(text[:n])
}
