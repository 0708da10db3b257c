package world_test

import (
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

const definition = `{"name":"memory0","cluster_id":"oscar-cluster-a","image":"ghcr.io/grycap/imagemagick","script":"#!/bin/sh\n",
"federation":{"topology":"mesh","members":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"memory1"}]},
"input":[{"storage_provider":"minio.default","path":"memory0/in"}],"output":[{"storage_provider":"minio.default","path":"memory0/out"}]}`

// TestAWorldInMemory: a federation whose parts speak over a network in this process, at
// another time, whose control plane is killed and whose syncer is.
func TestAWorldInMemory(t *testing.T) {
	t.Parallel()
	later := 400 * 24 * time.Hour
	w := world.New(t, world.Options{Network: &world.Memory{}, Now: func() time.Time { return time.Now().Add(later) }})
	s := world.Service(t, definition)
	if _, err := w.Client.CreateService(t.Context(), s, client.CreateOptions{Wait: await.Limit}); err != nil {
		t.Fatal(err)
	}
	list, err := w.Client.Federations(t.Context())
	if err != nil || len(list) != 1 || time.Until(list[0].CreatedAt.Time) < later-time.Hour {
		t.Errorf("by the clock of the world there is %+v %v", list, err)
	}
	b := w.Cluster("oscar-cluster-b")
	if got := b.Sim.Services(); !slices.Contains(got, "memory1") {
		t.Errorf("on b there are %v", got)
	}
	w.KillControlPlane(w.CP)
	b.Kill()
	w.Restart(func(c *controlplane.Config) { c.Witness = "" })
	b.Start()
	w.DeleteDirectly(b.URL + "/system/services/memory1")
	w.Eventually("it is made again", func() bool { return slices.Contains(b.Sim.Services(), "memory1") })
}
