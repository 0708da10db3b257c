package world_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// exposed is a service with a port and with buckets, on two clusters.
const exposed = `{"name":"web0","cluster_id":"oscar-cluster-a","image":"ghcr.io/grycap/nginx","script":"#!/bin/sh\n",
"expose":{"api_port":8080,"min_scale":1,"max_scale":2,"cpu_threshold":80},
"federation":{"topology":"mesh","members":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"web1"}]},
"input":[{"storage_provider":"minio.default","path":"web0/in"}]}`

// stopping is a federation whose exposed service is stopped and started.
type stopping struct {
	*world.World
}

func newStopping(t *testing.T) stopping {
	w := world.New(t, world.Options{Wire: wire.New(1), Clusters: []string{"oscar-cluster-a", "oscar-cluster-b", "oscar-cluster-c"}})
	if _, err := w.Client.CreateService(t.Context(), world.Service(t, exposed), client.CreateOptions{Wait: await.Limit}); err != nil {
		t.Fatal(err)
	}
	return stopping{w}
}

// run sends an order and expects the state that it answers.
func (w stopping) run(stop bool, state string) {
	w.T.Helper()
	if d, err := w.Client.SetRunState(w.T.Context(), "web0", "", stop, await.Limit); err != nil || d.State != state {
		w.T.Fatalf("stop=%v: %+v %v", stop, d, err)
	}
}

// stopped says whether a service has no instances.
func (w stopping) stopped(cluster, service string) bool {
	s, ok := w.Cluster(cluster).Sim.Service(service)
	return ok && s.Stopped
}

func (w stopping) await(cluster, service string, stopped bool) {
	w.T.Helper()
	w.Eventually(service+" is as it was ordered", func() bool {
		s, ok := w.Cluster(cluster).Sim.Service(service)
		return ok && s.Stopped == stopped
	})
}

// By the owner's order all members stop, and repair does not start them: what is started by hand, or
// was away, is stopped; and it starts again everywhere.
func TestAStoppedServiceStaysStopped(t *testing.T) { await.InVirtualTime(t, staysStopped) }

func staysStopped(t *testing.T) {
	w := newStopping(t)
	w.run(true, "stopped")
	if !w.stopped("oscar-cluster-a", "web0") || !w.stopped("oscar-cluster-b", "web1") {
		t.Fatal("it answered before all members were stopped")
	}
	revision := w.Revision()
	w.run(true, "stopped")
	if now := w.Revision(); now != revision {
		t.Errorf("the same order again wrote revisions up to %d, after %d", now, revision)
	}
	b := w.Cluster("oscar-cluster-b")
	if status, answer := w.Directly(http.MethodPost, b.URL+"/system/services/web1/start", nil); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	w.await("oscar-cluster-b", "web1", true)
	if _, body := w.Directly(http.MethodGet, b.URL+"/system/services/web1/deployment", nil); !strings.Contains(string(body), `"stopped"`) {
		t.Errorf("OSCAR shows %s", body)
	}

	b.Stop()
	w.Eventually("b is away", func() bool {
		f, err := w.Client.Federation(t.Context(), "web0")
		return err == nil && f.Replicas[1].Status.Phase == "unreachable"
	})
	w.run(false, "degraded")
	if w.stopped("oscar-cluster-a", "web0") || !w.stopped("oscar-cluster-b", "web1") {
		t.Error("a member that is away was started, or the other was not")
	}
	b.Start()
	w.await("oscar-cluster-b", "web1", false)
	w.Eventually("all is ready", func() bool {
		f, err := w.Client.Federation(t.Context(), "web0")
		return err == nil && f.Phase == "ready" && f.Generation == 1 && f.RunState == "started" && f.Replicas[1].Status.RunState == "started"
	})
	audit, err := w.Client.Audit(t.Context(), client.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, e := range audit {
		if e.Action == "stop" || e.Action == "start" {
			actions = append(actions, e.Action)
		}
	}
	if strings.Join(actions, " ") != "start stop" {
		t.Errorf("the audit has %v", actions)
	}
}

// OSCAR fails in a PUT of a stopped service. A change, a new member and the deletion get by all the
// same, and the service is stopped after the change.
func TestAStoppedServiceIsChangedAndDeleted(t *testing.T) { await.InVirtualTime(t, changedAndDeleted) }

func changedAndDeleted(t *testing.T) {
	w := newStopping(t)
	w.run(true, "stopped")
	next := strings.Replace(exposed, "ghcr.io/grycap/nginx", "ghcr.io/grycap/caddy", 1)
	next = strings.Replace(next, `"members":[`, `"members":[{"type":"oscar","cluster_id":"oscar-cluster-c","service_name":"web2"},`, 1)
	if _, err := w.Client.ChangeService(t.Context(), world.Service(t, next), client.ChangeOptions{Wait: await.Limit}); err != nil {
		t.Fatal(err)
	}
	for cluster, service := range map[string]string{"oscar-cluster-a": "web0", "oscar-cluster-b": "web1", "oscar-cluster-c": "web2"} {
		if s, ok := w.Cluster(cluster).Sim.Service(service); !ok || !s.Stopped || s.Image != "ghcr.io/grycap/caddy" {
			t.Errorf("after the change %s is %+v", service, s)
		}
	}
	if _, err := w.Client.DeleteService(t.Context(), "web0", client.DeleteOptions{Wait: await.Limit}); err != nil {
		t.Fatal(err)
	}
	for cluster, service := range map[string]string{"oscar-cluster-a": "web0", "oscar-cluster-b": "web1", "oscar-cluster-c": "web2"} {
		if _, ok := w.Cluster(cluster).Sim.Service(service); ok {
			t.Errorf("%s was not deleted", service)
		}
	}
}

// What has no port cannot be stopped, and a service that loses its port is stopped no more.
func TestOnlyExposedServicesAreStopped(t *testing.T) { await.InVirtualTime(t, onlyExposed) }

func onlyExposed(t *testing.T) {
	w := newStopping(t)
	w.run(true, "stopped")
	plain := strings.Replace(exposed, `"expose":{"api_port":8080,"min_scale":1,"max_scale":2,"cpu_threshold":80},`, "", 1)
	var f *v1.Replicas
	var err error
	if f, err = w.Client.ChangeService(t.Context(), world.Service(t, plain), client.ChangeOptions{Wait: await.Limit}); err != nil || f.Phase != "ready" {
		t.Fatalf("%+v %v", f, err)
	}
	if status, _, body := w.Do(http.MethodPost, "/system/services/web0/stop", ""); status != http.StatusBadRequest || body != `service "web0" is not exposed` {
		t.Errorf("%d %s", status, body)
	}
	fed, err := w.Client.Federation(t.Context(), "web0")
	if err != nil || fed.RunState != "" {
		t.Errorf("%+v %v", fed, err)
	}
}

// TestAChangeOfAnExposedServiceIsWarnedOf: an OSCAR without a serverless backend would empty its script.
func TestAChangeOfAnExposedServiceIsWarnedOf(t *testing.T) { await.InVirtualTime(t, exposedChange) }

func exposedChange(t *testing.T) {
	w := newStopping(t)
	for command, warned := range map[string]bool{"false": true, "true": false} {
		change := strings.Replace(exposed, `"cpu_threshold":80`, `"cpu_threshold":70,"default_command":`+command, 1)
		plan, err := w.Client.Plan(t.Context(), world.Service(t, change), client.PlanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(plan.Warnings, func(p v1.PlanWarning) bool { return strings.Contains(p.Message, "emptying its script") }) != warned {
			t.Errorf("default_command %s: %+v", command, plan.Warnings)
		}
	}
}
