package world_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// A user whose queue fills all clusters delays the first job of another one by at most one job's place on
// each cluster: OSCAR's own Jobs tell.
func TestAFullQueueDelaysAnothersFirstJobByOnePlaceInVirtualTime(t *testing.T) {
	await.InVirtualTime(t, fullQueue)
}

func fullQueue(t *testing.T) {
	const flood = 120
	w := world.New(t, world.Options{Wire: wire.New(1), Sim: func(c *oscarsim.Config) {
		c.Nodes = []oscarsim.Node{{Name: "n", CPU: 4000, Memory: 8 << 30}}
		c.Workload = &oscarsim.Workload{Seed: 1, Min: 20 * time.Second, Max: 80 * time.Second}
	}})
	s := world.Service(t, `{"name":"work0","cluster_id":"oscar-cluster-a","image":"i","cpu":"1","memory":"256Mi","script":"#!/bin/sh\n","visibility":"public",
"federation":{"topology":"mesh","delegation":"random","members":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"work1"}]}}`)
	if _, err := w.Client.CreateService(t.Context(), s, client.CreateOptions{Wait: await.Limit}); err != nil {
		t.Fatal(err)
	}
	submit := func(account, event string) {
		t.Helper()
		if _, err := w.CP.Jobs.Submit(t.Context(), identity.Caller{Subject: account}, jobs.Request{Service: "work0", Event: []byte(event)}); err != nil {
			t.Fatal(err)
		}
	}
	at := map[string][]oscarsim.JobView{}
	look := func() (n int) {
		for cluster, service := range map[string]string{"oscar-cluster-a": "work0", "oscar-cluster-b": "work1"} {
			at[cluster] = w.Cluster(cluster).Sim.Jobs(service)
			n += len(at[cluster])
		}
		return n
	}
	for i := range flood {
		submit("flood", fmt.Sprint("flood ", i))
	}
	w.Eventually("places were given back", func() bool { return look() >= 12 })
	for _, account := range []string{"ann", "bob"} {
		began := time.Now()
		submit(account, account)
		var started time.Time
		w.Eventually("the job has a place", func() bool {
			look()
			for _, all := range at {
				for _, j := range all {
					if j.Event == account {
						started = j.Created
					}
				}
			}
			return !started.IsZero()
		})
		for cluster, all := range at {
			before := 0
			for _, j := range all {
				if j.Event != account && j.Created.After(began) && j.Created.Before(started) {
					before++
				}
			}
			if before > 1 {
				t.Errorf("on %s %d jobs of the flood got a place before the first one of %s", cluster, before, account)
			}
		}
	}
	if n := look(); n >= flood {
		t.Errorf("%d jobs have begun: nothing was full", n)
	}
}
