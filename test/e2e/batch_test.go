package e2e_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestSeveralServicesAreOnAllClustersOrOnNone: what one OSCAR refuses, or cannot make, leaves no
// service of the request anywhere, and the same request works when the fault is gone.
func TestSeveralServicesAreOnAllClustersOrOnNone(t *testing.T) {
	prefixes := []string{"first", "second", "third"}
	var all []string
	for _, p := range prefixes {
		all = append(all, p+"0", p+"1", p+"2", p)
	}
	for name, tt := range map[string]struct {
		// disturb makes a service fail on one cluster, and mend undoes it.
		disturb, mend func(t *testing.T, sim *oscarsim.Sim)
		code          string
	}{
		"no fault": {code: ""},
		"a foreign service has the name": {
			disturb: func(t *testing.T, sim *oscarsim.Sim) {
				if err := sim.PutService(`{"name":"second1","image":"foreign","script":"#!/bin/sh"}`); err != nil {
					t.Fatal(err)
				}
			},
			code: "already_exists",
		},
		"one OSCAR makes none": {
			disturb: func(t *testing.T, sim *oscarsim.Sim) {
				if err := sim.SetFault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.Fault500}); err != nil {
					t.Fatal(err)
				}
			},
			mend: func(_ *testing.T, sim *oscarsim.Sim) { sim.ClearFaults() },
			code: "replica_failed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newWorld(t, func(o *world.Options) {
					o.Names = all
					o.ControlPlane = func(c *controlplane.Config) { c.ApplyGrace = 5 * time.Second }
				})
				sim := w.Cluster(b).Sim
				if tt.disturb != nil {
					tt.disturb(t, sim)
				}
				var services []*oscar.Service
				for _, p := range prefixes {
					services = append(services, world.Service(t, strings.ReplaceAll(body, "grayifyr", p)))
				}
				send := func() (*client.CreateServicesResult, error) {
					return w.Client.CreateServices(t.Context(), services, client.CreateOptions{Wait: 5 * time.Minute})
				}
				res, err := send()
				if codeOf(err) != tt.code {
					t.Fatalf("code %q: %v", codeOf(err), err)
				}
				ours := func(name string) bool {
					v, ok := sim.Service(name)
					return ok && v.Image != "foreign"
				}
				if err == nil {
					if len(res.Federations) != 3 || !ours("first1") || !ours("second1") || !ours("third1") {
						t.Errorf("%+v; %v", res.Federations, sim.Services())
					}
					return
				}
				for _, id := range []string{a, b, c} {
					left := slices.DeleteFunc(w.Cluster(id).Sim.Services(), func(name string) bool {
						v, ok := w.Cluster(id).Sim.Service(name)
						return !ok || v.Image == "foreign" || !slices.Contains(all, name)
					})
					if len(left) > 0 || len(w.Keys(record.DesiredServicesPrefix(id))) > 0 {
						t.Errorf("%s has %v", id, left)
					}
				}
				if tt.mend == nil {
					return
				}
				tt.mend(t, sim)
				if _, err := send(); err != nil {
					t.Error("once the fault is gone:", err)
				}
			})
		})
	}
}
