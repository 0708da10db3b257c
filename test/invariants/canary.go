package invariants

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

// minName is the least length of a service's or bucket's name.
const minName = 3

// PlantCanaries stands strangers on each simulated OSCAR and checks, when the test
// is over, that nobody has touched them: foreign services with their definition,
// token, Secret, webhook, bucket, objects, tags and a running job; and foreign
// buckets that OSCAR knows nothing of.
//
// names are the services and buckets that the test itself makes. The strangers have
// the names that are most at risk from code which compares only a part of a name:
// one of the names with something behind it, or without its end. Call it before the
// syncers are started: they are then stopped before the check.
func PlantCanaries(t testing.TB, names []string, sims ...*oscarsim.Sim) {
	t.Helper()
	if len(names) == 0 || len(sims) == 0 {
		t.Fatal("canaries need the names that are at risk, and clusters to stand on")
	}
	services, buckets := alike(names)
	for _, sim := range sims {
		c := canaries{sim: sim, services: services, buckets: slices.Concat(services, buckets)}
		if err := c.plant(); err != nil {
			t.Fatalf("plant canaries: %v", err)
		}
		planted := c.look()
		t.Cleanup(func() {
			t.Helper()
			sim.Settle()                                           // what OSCAR still does late must not do it after the check
			if now := c.look(); !reflect.DeepEqual(planted, now) { // cmp.Diff takes its time
				t.Errorf("foreign things on %s were touched (-planted +now):\n%s", sim.State().ClusterID, cmp.Diff(planted, now))
			}
			for _, call := range sim.Log() {
				if slices.Contains(services, call.Service) {
					t.Errorf("%s was called for the foreign service %s on %s, answer %d", call.Op, call.Service, sim.State().ClusterID, call.Status)
				}
			}
		})
	}
}

// alike gives names of strangers that look like names, and are none of them: of
// services, each with a bucket of the same name, and of buckets alone.
func alike(names []string) (services, buckets []string) {
	own, taken := map[string]bool{}, map[string]bool{}
	for _, n := range names {
		taken[n] = true
	}
	for _, n := range names {
		for _, like := range []string{n + "0", n[:max(len(n)-1, 0)]} {
			if len(like) >= minName && !taken[like] {
				own[like] = true
			}
		}
	}
	plain := map[string]bool{}
	for _, n := range names {
		if like := n + "-in"; !taken[like] && !own[like] {
			plain[like] = true
		}
	}
	return slices.Sorted(maps.Keys(own)), slices.Sorted(maps.Keys(plain))
}

// canaries are the strangers on one OSCAR.
type canaries struct {
	sim               *oscarsim.Sim
	services, buckets []string
}

func (c canaries) plant() error {
	for _, service := range c.services {
		def, err := json.Marshal(map[string]any{
			"name": service, "image": "example.org/foreign", "script": "#!/bin/sh\necho foreign\n",
			"owner": "cluster_admin", "environment": map[string]any{"secrets": map[string]string{"KEY": "foreign " + service}},
			"input":  []map[string]string{{"storage_provider": "minio.default", "path": service + "/in"}},
			"output": []map[string]string{{"storage_provider": "minio.default", "path": service + "/out"}},
		})
		if err != nil {
			return err
		}
		if err := c.sim.PutService(string(def)); err != nil {
			return fmt.Errorf("service %s: %w", service, err)
		}
		if _, err := c.sim.AddJob(service, oscarsim.JobRunning); err != nil {
			return fmt.Errorf("job of %s: %w", service, err)
		}
	}
	for _, bucket := range c.buckets {
		c.sim.PutBucket(bucket, "in/precious", "out/precious", "precious")
	}
	return nil
}

// stand is how the strangers stand at one moment.
type stand struct {
	Services map[string]oscarsim.ServiceView
	Secrets  map[string]map[string]string
	Jobs     map[string][]oscarsim.JobView
	Buckets  map[string]oscarsim.BucketView
}

// look reads them; what is missing is left out.
func (c canaries) look() stand {
	s := stand{
		Services: map[string]oscarsim.ServiceView{}, Secrets: map[string]map[string]string{},
		Jobs: map[string][]oscarsim.JobView{}, Buckets: map[string]oscarsim.BucketView{},
	}
	for _, name := range c.services {
		if v, ok := c.sim.Service(name); ok {
			s.Services[name] = v
		}
		if v, ok := c.sim.Secret(name); ok {
			s.Secrets[name] = v
		}
		s.Jobs[name] = c.sim.Jobs(name)
	}
	for _, name := range c.buckets {
		if v, ok := c.sim.Bucket(name); ok {
			s.Buckets[name] = v
		}
	}
	return s
}
