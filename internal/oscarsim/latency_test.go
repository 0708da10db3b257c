package oscarsim_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

func TestServiceIsVisibleBeforeItsBuckets(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, sim *oscarsim.Sim) {
		create := start(t.Context(), sim, "POST", "/system/services", plain("one"))
		synctest.Wait()
		if _, done := create.answered(); done {
			t.Fatal("answered at once")
		}
		if got := call(t.Context(), sim, "GET", "/system/services/one", ""); got.status != http.StatusOK {
			t.Fatalf("GET during the create answered %d", got.status)
		}
		if v, _ := sim.Service("one"); !v.Registered {
			t.Fatal("no webhook during the create")
		}
		if buckets := sim.Buckets(); len(buckets) != 0 {
			t.Fatalf("buckets during the create: %v", buckets)
		}
		before := time.Now()
		want(t, <-create.done, 201, "")
		if took := time.Since(before); took != oscarsim.RealLatency {
			t.Fatalf("took %s", took)
		}
		if buckets := sim.Buckets(); strings.Join(buckets, " ") != "one" {
			t.Fatalf("buckets after the create: %v", buckets)
		}
	})
}

func TestDeleteTakesTheServiceFirstAndTheBucketLast(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, sim *oscarsim.Sim) {
		if err := sim.PutService(plain("one")); err != nil {
			t.Fatal(err)
		}
		remove := start(t.Context(), sim, "DELETE", "/system/services/one", "")
		synctest.Wait()
		want(t, call(t.Context(), sim, "GET", "/system/services/one", ""), 404, "")
		if _, ok := sim.Bucket("one"); !ok {
			t.Fatal("the bucket goes before the delete is answered")
		}
		// A POST of the same name is accepted meanwhile, and the running delete still takes the bucket.
		again := start(t.Context(), sim, "POST", "/system/services", bare("one"))
		want(t, <-remove.done, 204, "")
		want(t, <-again.done, 201, "")
		if _, ok := sim.Bucket("one"); ok {
			t.Fatal("the bucket survived the delete")
		}
		if names := sim.Services(); strings.Join(names, " ") != "one" {
			t.Fatalf("services %v", names)
		}
	})
}

func TestUpdateWaitsForEachNewBucket(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, sim *oscarsim.Sim) {
		if err := sim.PutService(bare("one")); err != nil {
			t.Fatal(err)
		}
		took := func(body string, status int) time.Duration {
			before := time.Now()
			if got := call(t.Context(), sim, "PUT", "/system/services", body); got.status != status {
				t.Fatalf("PUT answered %d %q, want %d", got.status, got.body, status)
			}
			return time.Since(before)
		}
		if d := took(strings.Replace(plain("one"), "one/out", "two/out", 1), 500); d != 2*oscarsim.RealLatency {
			t.Errorf("two new buckets took %s", d)
		}
		if d := took(strings.Replace(plain("one"), "one/out", "two/out", 1), 204); d != 0 {
			t.Errorf("known buckets took %s", d)
		}
	})
}

func TestClientThatLeavesChangesNothing(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, sim *oscarsim.Sim) {
		ctx, leave := context.WithCancel(t.Context())
		create := start(ctx, sim, "POST", "/system/services", plain("one"))
		synctest.Wait()
		leave()
		<-create.done
		if _, ok := sim.Bucket("one"); !ok {
			t.Fatal("the create ended with its client")
		}
	})
}

func TestKillInTheMiddleOfACreate(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, sim *oscarsim.Sim) {
		create := start(t.Context(), sim, "POST", "/system/services", plain("one"))
		synctest.Wait()
		sim.Kill()
		if got := <-create.done; got.err == nil {
			t.Fatalf("answered %d", got.status)
		}
		if len(sim.Buckets()) != 0 || len(sim.Services()) != 1 {
			t.Fatalf("buckets %v, services %v", sim.Buckets(), sim.Services())
		}
		// The next process says that it exists; only DELETE and POST heal it.
		want(t, call(t.Context(), sim, "POST", "/system/services", plain("one")), 400, "A service with the provided name already exists")
		want(t, call(t.Context(), sim, "DELETE", "/system/services/one", ""), 204, "")
		want(t, call(t.Context(), sim, "POST", "/system/services", plain("one")), 201, "")
	})
}

func TestConcurrentCreatesBreakEachOther(t *testing.T) {
	cfg := slow()
	cfg.ClusterID = "a"
	cfg.BreakConcurrent = true
	const refused = `error registering the service's webhook: Put "http://minio.a.example.org:9000/minio/admin/v3/set-config-kv": dial tcp minio.a.example.org:9000: connect: connection refused`
	bubble(t, cfg, func(t *testing.T, sim *oscarsim.Sim) {
		first := start(t.Context(), sim, "POST", "/system/services", plain("one"))
		synctest.Wait()
		secret := strings.Replace(plain("two"), `"owner"`, `"environment":{"secrets":{"k":"v"}},"owner"`, 1)
		want(t, call(t.Context(), sim, "POST", "/system/services", secret), 500, refused)
		if st := sim.State(); len(st.Services) != 1 || len(st.Secrets) != 0 {
			t.Fatalf("the refused create left %+v", st)
		}
		want(t, <-first.done, 201, "")
		want(t, call(t.Context(), sim, "POST", "/system/services", secret), 201, "")

		// A delete meanwhile loses its service and keeps bucket and webhook.
		third := start(t.Context(), sim, "POST", "/system/services", plain("three"))
		synctest.Wait()
		got := call(t.Context(), sim, "DELETE", "/system/services/two", "")
		if got.status != 500 || !strings.HasPrefix(got.body, "Error deleting service buckets: %!(EXTRA") {
			t.Fatalf("DELETE answered %d %q", got.status, got.body)
		}
		if v := sim.State(); strings.Join(sim.Services(), " ") != "one three" || strings.Join(sim.Buckets(), " ") != "one two" || v.Webhooks["two"] == "" {
			t.Fatalf("services %v, buckets %v, webhooks %v", sim.Services(), sim.Buckets(), v.Webhooks)
		}
		want(t, <-third.done, 201, "")
	})
}

func TestConcurrentCreatesWithoutBreaking(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, sim *oscarsim.Sim) {
		first := start(t.Context(), sim, "POST", "/system/services", plain("one"))
		second := start(t.Context(), sim, "POST", "/system/services", plain("two"))
		want(t, <-first.done, 201, "")
		want(t, <-second.done, 201, "")
	})
}

func TestThrottle(t *testing.T) {
	cfg := oscarsim.Config{ThrottleGETs: true}
	for _, c := range []struct {
		name, path string
		count      int
		want       time.Duration
	}{
		{"a list is one call", "/system/services", 40, 6 * time.Second},
		{"a read is three", "/system/services/one", 40, 22 * time.Second},
		{"health is none", "/health", 40, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, cfg, func(t *testing.T, sim *oscarsim.Sim) {
				before := time.Now()
				var all []pending
				for range c.count {
					all = append(all, start(t.Context(), sim, "GET", c.path, ""))
				}
				for _, p := range all {
					<-p.done
				}
				if took := time.Since(before); took.Round(100*time.Millisecond) != c.want {
					t.Errorf("%d of %s took %s, want %s", c.count, c.path, took, c.want)
				}
			})
		})
	}
}

func TestLogHasTheOrderAndTheOutcome(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, sim *oscarsim.Sim) {
		create := start(t.Context(), sim, "POST", "/system/services", plain("one"))
		synctest.Wait()
		call(t.Context(), sim, "GET", "/system/services", "")
		call(t.Context(), sim, "DELETE", "/system/services/none", "")
		log := sim.Log()
		if len(log) != 2 || log[0].Op != oscarsim.OpCreate || log[0].Service != "one" || !log[0].Done.IsZero() || log[1].Op != oscarsim.OpDelete || log[1].Status != 404 {
			t.Fatalf("log %+v", log)
		}
		<-create.done
		if log = sim.Log(); log[0].Status != 201 || log[0].Done.Sub(log[0].Time) != oscarsim.RealLatency {
			t.Fatalf("log %+v", log)
		}
		if calls := sim.Calls(); calls["create"] != 1 || calls["delete"] != 1 || calls["list"] != 1 {
			t.Fatalf("calls %v", calls)
		}
	})
}
