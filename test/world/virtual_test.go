package world_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

const definition = `{"name":"memory0","cluster_id":"oscar-cluster-a","image":"ghcr.io/grycap/imagemagick","script":"#!/bin/sh\n",
"federation":{"topology":"mesh","members":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"memory1"}]},
"input":[{"storage_provider":"minio.default","path":"memory0/in"}],"output":[{"storage_provider":"minio.default","path":"memory0/out"}]}`

// A federation whose control plane is killed and whose syncer is, by clocks that are a year ahead.
func TestAWorldInVirtualTime(t *testing.T) { await.InVirtualTime(t, killed) }

func killed(t *testing.T) {
	later := 400 * 24 * time.Hour
	w := world.New(t, world.Options{Wire: wire.New(1), Now: func() time.Time { return time.Now().Add(later) }})
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
	w.AwaitStreams(w.CP)
}

// user is a subject of EGI.
const user = "62bb11b4@egi.eu"

// A user of an issuer runs a function through the stream of a syncer, and a job on another
// cluster than the origin gets the keys of the origin's MinIO.
func TestUsersStreamsAndOriginsInVirtualTime(t *testing.T) { await.InVirtualTime(t, streamsAndOrigins) }

func streamsAndOrigins(t *testing.T) {
	net := wire.New(1)
	w := world.New(t, world.Options{
		Clusters: []string{"oscar-cluster-a", "oscar-cluster-b"}, Wire: net,
		Issuer: issuer.Serve(t, world.Must(net.Host("issuer").Listen(t.Context()))(t), ""), OriginStorage: true,
		Sim:     func(c *oscarsim.Config) { c.Function = http.HandlerFunc(oscarsim.Echo) },
		Syncer:  func(c *syncer.Config) { c.OriginLook = 500 * time.Millisecond },
		Secrets: []string{"sim-key-of-" + user},
	})
	w.AddUser(user)
	token := w.Token(user, nil)
	as := w.WithToken(token)
	s := world.Service(t, strings.Replace(definition, `"federation":{`, `"environment":{"secrets":{"refresh_token":"canary-refresh-token"}},"federation":{"delegation":"random",`, 1))
	s.Visibility = "public"
	if _, err := as.CreateService(t.Context(), s, client.CreateOptions{Wait: await.Limit}); err != nil {
		t.Fatal(err)
	}
	w.AwaitStreams(w.CP)
	status, _, answer := w.Raw(http.MethodPost, "/run/memory0", "hello", "Bearer "+token)
	if status != http.StatusOK || answer != "hello" {
		t.Errorf("the function answers %d %s", status, answer)
	}
	w.Eventually("the worker can use the origin's storage", func() bool {
		r, err := w.Client.Replicas(t.Context(), "memory0", "")
		return err == nil && slices.ContainsFunc(r.Replicas, func(m v1.Replica) bool { return m.Status.Inputs != nil && m.Status.Inputs.Readable })
	})
	if _, err := w.Client.SetClusterState(t.Context(), "oscar-cluster-a", "cordoned"); err != nil {
		t.Fatal(err)
	}
	if _, err := as.SubmitJob(t.Context(), "memory0", []byte("an event"), client.JobOptions{}); err != nil {
		t.Fatal(err)
	}
	var jobs []oscarsim.JobView
	w.Eventually("the job is at the worker", func() bool {
		jobs = w.Cluster("oscar-cluster-b").Sim.Jobs("memory1")
		return len(jobs) == 1
	})
	if keys := jobs[0].MinIO; keys == nil || keys.SecretKey != "sim-key-of-"+user || keys.Endpoint != w.Cluster("oscar-cluster-a").URL {
		t.Errorf("the job has %+v", keys)
	}
}
