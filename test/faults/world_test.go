package faults_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// Faults that need no process to die are tried on a world in virtual time: a clock that can
// be moved, a network that can be cut.

// limit is longer than anything here takes.
const limit = await.Limit

// fdl is a federation over clusters a, b and c whose services, bucket and group are
// named after name.
func fdl(name, memory string) string {
	return fmt.Sprintf(`{"name":"%[1]s0","cluster_id":"oscar-cluster-a","image":"ghcr.io/grycap/imagemagick","memory":%[2]q,"script":"#!/bin/sh\n",
"environment":{"secrets":{"KEY":"secret-value-of-the-test"}},
"federation":{"group_id":%[1]q,"topology":"mesh","members":[
{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"%[1]s1"},
{"type":"oscar","cluster_id":"oscar-cluster-c","service_name":"%[1]s2"}]},
"input":[{"storage_provider":"minio.default","path":"%[1]s0/in"}],"output":[{"storage_provider":"minio.default","path":"%[1]s0/out"}]}`, name, memory)
}

// replicasOf are the places of fdl's services.
func replicasOf(name string) map[string]string {
	return map[string]string{"oscar-cluster-a": name + "0", "oscar-cluster-b": name + "1", "oscar-cluster-c": name + "2"}
}

// newWorld starts a world, on a network of its own unless it is told which etcd to use.
func newWorld(t testing.TB, opts world.Options) *world.World {
	t.Helper()
	opts.Secrets = []string{"secret-value-of-the-test"}
	if opts.Wire == nil && len(opts.Endpoints) == 0 {
		opts.Wire = wire.New(1)
	}
	for _, name := range []string{"alpha", "beta", "gamma"} {
		opts.Names = append(opts.Names, slices.Sorted(maps.Values(replicasOf(name)))...)
	}
	return world.New(t, opts)
}

func createIn(w *world.World, api *client.Client, name string) error {
	w.T.Helper()
	_, err := api.CreateService(w.T.Context(), world.Service(w.T, fdl(name, "256Mi")), client.CreateOptions{Wait: limit})
	return err
}

func mustCreate(w *world.World, name string) {
	w.T.Helper()
	if err := createIn(w, w.Client, name); err != nil {
		w.T.Fatal(err)
	}
}

func mustChange(w *world.World, name, memory string) {
	w.T.Helper()
	if _, err := w.Client.ChangeService(w.T.Context(), world.Service(w.T, fdl(name, memory)), client.ChangeOptions{Async: true}); err != nil {
		w.T.Fatal(err)
	}
}

func mustDelete(w *world.World, name string) {
	w.T.Helper()
	if _, err := w.Client.DeleteService(w.T.Context(), name+"0", client.DeleteOptions{}); err != nil {
		w.T.Fatal(err)
	}
}

// stands waits until all replicas are ready, and looks that each OSCAR has its
// service with this memory and its secret.
func stands(w *world.World, name, memory string) {
	w.T.Helper()
	w.Eventually(name+" is ready", func() bool {
		v, err := w.Client.Replicas(w.T.Context(), name+"0", "")
		return err == nil && v.Phase == "ready"
	})
	for cluster, svc := range replicasOf(name) {
		v, ok := w.Cluster(cluster).Sim.Service(svc)
		if !ok || !strings.Contains(string(v.JSON), `"memory":"`+memory+`"`) || v.Secrets["KEY"] != "secret-value-of-the-test" {
			w.T.Errorf("%s/%s: %t %s %v", cluster, svc, ok, v.JSON, v.Secrets)
		}
	}
}

// isGone waits until no OSCAR has a service of the federation.
func isGone(w *world.World, name string) {
	w.T.Helper()
	w.Eventually(name+" is gone", func() bool {
		for cluster, svc := range replicasOf(name) {
			if slices.Contains(w.Cluster(cluster).Sim.Services(), svc) {
				return false
			}
		}
		return true
	})
}

// writes counts what was sent to all OSCARs to change something.
func writes(w *world.World, clusters ...string) map[string]int {
	out := map[string]int{}
	for _, id := range clusters {
		calls := w.Cluster(id).Sim.Calls()
		for _, op := range []string{"create", "update", "delete"} {
			out[id+" "+op] = calls[op]
		}
	}
	return out
}

func clientCode(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Code()
	}
	return ""
}
