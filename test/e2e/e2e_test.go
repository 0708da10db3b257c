// Package e2e_test runs whole federations, with everything real but the OSCARs.
package e2e_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

const (
	a = "oscar-cluster-a"
	b = "oscar-cluster-b"
	c = "oscar-cluster-c"
)

// limit is longer than anything here takes.
const limit = await.Limit

// names are those of the services and of the bucket that the tests use.
var names = []string{"grayifyr0", "grayifyr1", "grayifyr2"}

const body = `{"name":"grayifyr0","cluster_id":"oscar-cluster-a","image":"ghcr.io/grycap/imagemagick","cpu":"0.5","memory":"0.5Gi",
"script":"#!/bin/sh\n","environment":{"variables":{"SIZE":"10"},"secrets":{"KEY":"canary-environment-secret"}},
"federation":{"topology":"mesh","delegation":"random","members":[
{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"grayifyr1"},
{"type":"oscar","cluster_id":"oscar-cluster-c","service_name":"grayifyr2"}]},
"input":[{"storage_provider":"minio.default","path":"grayifyr0/in"}],"output":[{"storage_provider":"minio.default","path":"grayifyr0/out"}]}`

func newWorld(t testing.TB, mutate ...func(*world.Options)) *world.World {
	t.Helper()
	opts := world.Options{Wire: wire.New(1), Names: names, Secrets: []string{"canary-environment-secret"}}
	for _, m := range mutate {
		m(&opts)
	}
	return world.New(t, opts)
}

// step is a part of a test: there are no subtests in virtual time.
func step(t *testing.T, name string, part func(t *testing.T)) {
	t.Helper()
	t.Log(name)
	part(t)
}

func create(w *world.World, body string) (*client.CreateResult, error) {
	w.T.Helper()
	return w.Client.CreateService(w.T.Context(), world.Service(w.T, body), client.CreateOptions{Wait: limit})
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Code()
	}
	return ""
}

// ready says whether all replicas are.
func ready(w *world.World) bool {
	v, err := w.Client.Replicas(w.T.Context(), names[0], "")
	return err == nil && v.Phase == "ready"
}

// gone says whether nothing of the federation is left, on any cluster and in the store.
func gone(w *world.World) bool {
	for i, id := range []string{a, b, c} {
		if slices.Contains(w.Cluster(id).Sim.Services(), names[i]) || len(w.Keys(record.DesiredServicesPrefix(id))) > 0 {
			return false
		}
	}
	return true
}

func TestCreateRepairDelete(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		for i, id := range []string{a, b, c} {
			v, ok := w.Cluster(id).Sim.Service(names[i])
			if !ok || v.Secrets["KEY"] != "canary-environment-secret" || v.Token == "" {
				t.Errorf("%s: %+v", id, v)
			}
		}
		// Deleted behind our back, by that OSCAR's own API.
		sim := w.Cluster(b).Sim
		was, _ := sim.Service(names[1])
		w.DeleteDirectly(w.Cluster(b).URL + "/system/services/" + names[1])
		w.Eventually("the replica is made again", func() bool {
			v, ok := sim.Service(names[1])
			return ok && v.Token == was.Token && ready(w)
		})
		if _, err := w.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("everything is gone", func() bool { return gone(w) })
		if _, ok := w.Cluster(a).Sim.Bucket(names[0]); !ok {
			t.Error("a deletion took the user's bucket")
		}
	})
}

// TestADefinitionThatWasReadFromAnOSCARWasRolledBack: it has the labels that OSCAR gave it, and the
// OSCARs of its members give them other values.
func TestADefinitionThatWasReadFromAnOSCARWasRolledBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		url := w.Cluster(a).URL + "/system/services"
		const alone = `{"name":"grayifyr0","image":"ghcr.io/grycap/imagemagick","script":"#!/bin/sh\n","labels":{"mine":"kept"}}`
		if status, answer := w.Directly(http.MethodPost, url, []byte(alone)); status != http.StatusCreated {
			t.Fatalf("%d %s", status, answer)
		}
		_, read := w.Directly(http.MethodGet, url+"/grayifyr0", nil)
		w.DeleteDirectly(url + "/grayifyr0")
		const members = `{"cluster_id":"oscar-cluster-a","federation":{"topology":"star","members":[
{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"grayifyr1"}]},`
		if _, err := create(w, members+strings.TrimPrefix(strings.Replace(string(read), `"cluster_id":"",`, "", 1), "{")); err != nil {
			t.Fatal(err)
		}
		v, _ := w.Cluster(b).Sim.Service(names[1])
		if !strings.Contains(string(v.JSON), `"mine":"kept"`) {
			t.Errorf("the member is %s", v.JSON)
		}
	})
}

// TestOscarFaultsDuringACreate: whatever an OSCAR answers, the end is all or
// nothing, and the same request works when the fault is gone.
func TestOscarFaultsDuringACreate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault   oscarsim.Fault
		outcome string // code of the answer; "" is success
	}{
		"500":                  {oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.Fault500}, "replica_failed"},
		"500 once":             {oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.Fault500, Count: 1}, ""},
		"500 after it is done": {oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.Fault500After, Count: 1}, ""},
		"refused":              {oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultRefuse}, "replica_failed"},
		"hangs":                {oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultHang}, "replica_failed"},
		"late":                 {oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultLate, Count: 1, Delay: 300 * time.Millisecond}, ""},
		"credential denied":    {oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultDeny}, "replica_failed"},
		"gone":                 {oscarsim.Fault{Op: oscarsim.OpAny, Fault: oscarsim.FaultRefuse}, "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t, func(o *world.Options) {
					o.ControlPlane = func(c *controlplane.Config) {
						// What is to succeed has as long as it takes; what cannot end by itself is given up.
						switch tt.outcome {
						case "replica_failed":
							c.ApplyGrace, c.PrepareDeadline = 3*time.Second, limit
						case "unavailable":
							c.PrepareDeadline = 3 * time.Second
						}
					}
					o.Syncer = func(c *syncer.Config) { c.WriteTimeout = time.Second }
				})
				sim := w.Cluster(c).Sim
				if err := sim.SetFault(tt.fault); err != nil {
					t.Fatal(err)
				}
				_, err := create(w, body)
				if codeOf(err) != tt.outcome {
					t.Fatalf("answer %q, want %q: %v", codeOf(err), tt.outcome, err)
				}
				sim.ClearFaults()
				if tt.outcome == "" {
					if !ready(w) {
						t.Error("not ready")
					}
					return
				}
				w.Eventually("nothing is left", func() bool { return gone(w) })
				w.Unhurried()
				if _, err := create(w, body); err != nil {
					t.Errorf("the same request, when the fault is gone: %v", err)
				}
			})
		})
	}
}

// TestHalfCreatedIsNotReady: an OSCAR that dies in the middle of the coordinator's
// create leaves a service without its bucket. That is not success.
func TestHalfCreatedIsNotReady(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(o *world.Options) {
			o.ControlPlane = func(c *controlplane.Config) { c.ApplyGrace = 4 * time.Second }
			o.Syncer = func(c *syncer.Config) { c.WriteTimeout = time.Second }
		})
		if err := w.Cluster(a).Sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultCrash, Count: 1}); err != nil {
			t.Fatal(err)
		}
		_, err := create(w, body)
		if codeOf(err) != "replica_failed" {
			t.Fatal(err)
		}
		w.Eventually("nothing is left", func() bool { return gone(w) })
		w.Unhurried()
		if _, err := create(w, body); err != nil {
			t.Error(err)
		}
	})
}

// TestALateCreateAfterItsRollbackWasAcknowledged: the service appears when
// everybody has forgotten it. It is recognised, and goes.
func TestALateCreateAfterItsRollbackWasAcknowledged(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(o *world.Options) {
			o.ControlPlane = func(c *controlplane.Config) { c.ApplyGrace = 500 * time.Millisecond }
			o.Syncer = func(c *syncer.Config) { c.WriteTimeout, c.LateWindow = 300*time.Millisecond, 600*time.Millisecond }
		})
		sim := w.Cluster(c).Sim
		if err := sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.FaultLate, Count: 2, Delay: 4 * time.Second}); err != nil {
			t.Fatal(err)
		}
		if _, err := create(w, body); codeOf(err) != "replica_failed" {
			t.Fatal(err)
		}
		w.Eventually("the rollback is acknowledged", func() bool { return gone(w) })
		sim.Settle() // it has appeared; it may be gone already
		w.Eventually("the late service is deleted", func() bool { return sim.Calls()[oscarsim.OpDelete] > 0 && gone(w) })
	})
}

func TestARefusedCreateTouchesNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		sim := w.Cluster(c).Sim
		if err := sim.PutService(`{"name":"grayifyr2","image":"somebody/elses","script":"#!/bin/sh\n"}`); err != nil {
			t.Fatal(err)
		}
		status, _, text := w.Do("POST", "/system/services", body)
		if status != 409 || !strings.Contains(text, "oscar-cluster-c/grayifyr2") {
			t.Errorf("%d %s", status, text)
		}
		if v, ok := sim.Service("grayifyr2"); !ok || v.Image != "somebody/elses" {
			t.Error("the foreign service was touched")
		}
		for _, id := range []string{a, b, c} {
			calls := w.Cluster(id).Sim.Calls()
			if calls["create"]+calls["update"]+calls["delete"] > 0 {
				t.Errorf("%s was written to: %v", id, calls)
			}
		}
	})
}

func TestAForeignBucketIsARefusalThatNamesIt(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.Cluster(b).Sim.PutBucket("grayifyr0", "precious/data")
		status, _, text := w.Do("POST", "/system/services", body)
		if status != 409 || !strings.Contains(text, "grayifyr0") || !strings.Contains(text, "ForeignBucket") && !strings.Contains(text, "bucket") {
			t.Errorf("%d %s", status, text)
		}
		if v, ok := w.Cluster(b).Sim.Bucket("grayifyr0"); !ok || !slices.Contains(v.Objects, "precious/data") {
			t.Errorf("the foreign bucket was touched: %+v", v)
		}
	})
}

// TestTheBucketOfAnEarlierLifeIsAttached: create, upload, delete, create again;
// the data is still there.
func TestTheBucketOfAnEarlierLifeIsAttached(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		for range 2 {
			if _, err := create(w, body); err != nil {
				t.Fatal(err)
			}
			if err := w.Cluster(a).Sim.Upload("grayifyr0", "out/result"); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			w.Eventually("everything is gone", func() bool { return gone(w) })
		}
		if v, ok := w.Cluster(a).Sim.Bucket("grayifyr0"); !ok || !slices.Contains(v.Objects, "out/result") {
			t.Errorf("%+v", v)
		}
	})
}

// TestTheBucketThatSomebodysPutMadeIsNotInTheWay: a worker's creation makes no bucket,
// and OSCAR makes it at the first PUT, whoever sends that.
func TestTheBucketThatSomebodysPutMadeIsNotInTheWay(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		at := w.Cluster(b).URL + "/system/services"
		status, service := w.Directly(http.MethodGet, at+"/"+names[1], nil)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, service)
		}
		// The same definition: not even drift is seen.
		if status, answer := w.Directly(http.MethodPut, at, service); status != http.StatusNoContent {
			t.Fatalf("%d %s", status, answer)
		}
		if _, ok := w.Cluster(b).Sim.Bucket("grayifyr0"); !ok {
			t.Fatal("the PUT made no bucket")
		}
		if _, err := w.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("everything is gone", func() bool { return gone(w) })
		if _, err := create(w, body); err != nil {
			t.Errorf("the same creation again: %v", err)
		}
	})
}

func TestARunningJobHoldsItsDeletion(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		sim := w.Cluster(b).Sim
		job, err := sim.AddJob(names[1], "Running")
		if err != nil {
			t.Fatal(err)
		}
		status, header, _ := w.Do("DELETE", "/system/services/"+names[0]+"?wait=1s", "")
		if status != 204 || header.Get("Oscarfed-Pending") == "" {
			t.Errorf("%d %v", status, header)
		}
		if len(sim.Jobs(names[1])) != 1 {
			t.Error("a running job was ended by a deletion that did not order it")
		}
		if err := sim.SetJobStatus(names[1], job, "Succeeded"); err != nil {
			t.Fatal(err)
		}
		w.Eventually("the deletion goes on when the job has ended", func() bool { return gone(w) })
	})
}

// TestCounts: the revisions that a create and a delete cost are part of the design.
func TestCounts(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		before := w.Revision()
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		const n, specs = 3, 1
		if cost := w.Revision() - before - specs; cost != 2*n+3 {
			t.Errorf("a create over %d clusters cost %d revisions, want %d", n, cost, 2*n+3)
		}
		before = w.Revision()
		if _, err := w.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.Eventually("everything is gone", func() bool { return gone(w) })
		if cost := w.Revision() - before; cost != n+2 {
			t.Errorf("a delete over %d clusters cost %d revisions, want %d", n, cost, n+2)
		}
	})
}

func TestBestEffortCompletesWhenTheClusterIsBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(o *world.Options) {
			o.ControlPlane = func(c *controlplane.Config) { c.PrepareDeadline = time.Second }
		})
		w.Cluster(c).Stop()
		status, header, text := w.Do("POST", "/system/services?deployment=best-effort", body)
		if status != 201 || header.Get("Location") != "/system/replicas/grayifyr0" || !strings.Contains(text, "oscar-cluster-c/grayifyr2") {
			t.Errorf("%d %v %s", status, header, text)
		}
		w.Cluster(c).Start()
		w.Eventually("the third replica is ready", func() bool { return ready(w) })
	})
}
