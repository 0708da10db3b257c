package faults_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/process"
)

// scenario brings a process to a fail point, and says what must be the end.
type scenario struct {
	name string
	// arrange makes the world such that the point is passed.
	arrange func(f *federation)
	// act sends the request; it is sent again, the same, after the restart.
	act func(f *federation) error
	// ends are the codes that the repeated request may be answered with.
	ends []string
	// everywhere says whether the services are there at the end, or nowhere.
	everywhere bool
	// stays is how many services are there at the end although it is not everywhere.
	stays int
	// settle undoes what arrange did.
	settle func(f *federation)
}

var (
	creates = scenario{
		name: "create", act: func(f *federation) error { return f.create("crash") }, ends: []string{""}, everywhere: true,
	}
	refused = scenario{
		name:    "refused create",
		arrange: func(f *federation) { f.foreign() },
		act:     func(f *federation) error { return f.create("crash") }, ends: []string{"already_exists"},
		settle: func(f *federation) { f.unforeign() },
	}
	rollsBack = scenario{
		name: "rolled back create",
		arrange: func(f *federation) {
			f.fault(oscarsim.Fault{Op: oscarsim.OpCreate, Fault: oscarsim.Fault500})
		},
		act: func(f *federation) error { return f.create("crash") }, ends: []string{"replica_failed"},
		settle: func(f *federation) { f.sims[clusterIDs[2]].ClearFaults() },
	}
	deletes = scenario{
		name:    "delete",
		arrange: func(f *federation) { f.must(f.create("before")) },
		act:     func(f *federation) error { return f.remove() }, ends: []string{"", "not_found"},
	}
	deletesWithData = scenario{
		name:    "delete with data",
		arrange: func(f *federation) { f.must(f.create("before")) },
		act:     func(f *federation) error { return f.removeAll("delete") }, ends: []string{"", "not_found"},
		settle: func(f *federation) {
			if _, stands := f.sims[clusterIDs[0]].Bucket(services[0]); stands {
				f.t.Error("the bucket that was ordered to go stands")
			}
		},
	}
	attaches = scenario{
		name: "create over the buckets of an earlier life",
		arrange: func(f *federation) {
			f.must(f.create("before"))
			f.must(f.remove())
			f.quiet()
		},
		act: func(f *federation) error { return f.create("crash") }, ends: []string{""}, everywhere: true,
	}
)

var (
	removes = scenario{
		name:    "removal of a cluster",
		arrange: func(f *federation) { f.must(f.create("before")) },
		act:     func(f *federation) error { return f.removeCluster(clusterIDs[2], client.RemoveClusterOptions{}) },
		ends:    []string{"", "not_found"}, stays: 2,
		settle: func(f *federation) {
			f.must(f.remove())
			f.quiet()
			f.reregister(clusterIDs[2])
		},
	}
	disbands = scenario{
		name:    "removal of the coordinator's cluster",
		arrange: func(f *federation) { f.must(f.create("before")) },
		act: func(f *federation) error {
			return f.removeCluster(clusterIDs[0], client.RemoveClusterOptions{Force: true})
		},
		ends:   []string{"", "not_found"},
		settle: func(f *federation) { f.reregister(clusterIDs[0]) },
	}
	releases = scenario{
		name:    "removal of a cluster whose services stay",
		arrange: func(f *federation) { f.must(f.create("before")) },
		act: func(f *federation) error {
			return f.removeCluster(clusterIDs[0], client.RemoveClusterOptions{Force: true, Orphan: true})
		},
		ends: []string{"", "not_found"}, stays: 1,
		settle: func(f *federation) {
			deleteDirectly(f.t, f.urls[clusterIDs[0]]+"/system/services/"+services[0])
			f.reregister(clusterIDs[0])
		},
	}
)

// scenarioOf says how a fail point is reached.
func scenarioOf(point string) scenario {
	_, name, _ := strings.Cut(point, ".")
	_, step, _ := strings.Cut(name, "_")
	switch {
	case step == "abort":
		return refused
	case step == "roll_back", step == "rolled_back":
		return rollsBack
	case step == "delete", step == "deleted", step == "detach", step == "erase":
		return deletes
	case step == "remove", step == "leave", step == "left", step == "unregister":
		return removes
	case step == "disband":
		return disbands
	case step == "release":
		return releases
	case step == "drop":
		return deletesWithData
	case step == "update":
		return attaches
	}
	return creates
}

// TestKilledAtEveryFailPoint kills the control plane, and the syncer of the
// coordinator's cluster, at every fail point of create, delete and the
// removal of a cluster, starts it again, and looks at the end: all or nothing, nothing foreign touched (the
// canaries), every promise at every revision (the guard), and the same request
// works afterwards.
func TestKilledAtEveryFailPoint(t *testing.T) {
	points := append(controlplane.FailPoints(), syncer.FailPoints()...)
	var mu sync.Mutex
	hit := map[string]bool{}
	// A federation waits most of the time, for leases to end: several share the points.
	t.Run("in", func(t *testing.T) {
		const shares = 3
		for share := range shares {
			t.Run(fmt.Sprintf("federation%d", share), func(t *testing.T) {
				t.Parallel()
				f := newFederation(t)
				for i := share; i < len(points); i += shares {
					ok := t.Run(points[i], func(t *testing.T) {
						f.t, f.key = t, points[i]
						f.killedAt(points[i], scenarioOf(points[i]))
						mu.Lock()
						defer mu.Unlock()
						hit[points[i]] = true
					})
					if !ok {
						break // the world is no longer as the next point needs it
					}
				}
				f.t = t
			})
		}
	})
	t.Logf("killed at %d of %d fail points", len(hit), len(points))
	if len(hit) != len(points) {
		t.Errorf("hit %d distinct fail points, there are %d", len(hit), len(points))
	}
}

func (f *federation) killedAt(point string, s scenario) {
	f.t.Helper()
	if s.arrange != nil {
		s.arrange(f)
	}
	id := clusterIDs[0]
	ofSyncer := strings.HasPrefix(point, "syncer.")
	var victim *process.Child
	if ofSyncer {
		f.syncers[id].Stop()
		f.startSyncer(id, point)
		f.awaitSyncer(id)
		victim = f.syncers[id]
	} else {
		f.cp.Stop()
		f.startControlPlane(point)
		victim = f.cp
	}
	answer := make(chan error, 1)
	go func() { answer <- s.act(f) }()
	if !victim.Killed(40 * time.Second) {
		f.t.Fatalf("nothing was killed at %s: the %s does not pass it", point, s.name)
	}
	if ofSyncer {
		f.startSyncer(id, "")
	} else {
		if got := code(<-answer); got == "" && s.everywhere {
			f.t.Logf("%s was answered before the kill", s.name)
		}
		f.startControlPlane("")
		go func() { answer <- s.act(f) }()
	}
	got := code(<-answer)
	ok := false
	for _, end := range s.ends {
		ok = ok || got == end
	}
	if !ok {
		f.t.Errorf("the %s ended with %q, want one of %q", s.name, got, s.ends)
	}
	f.quiet()
	if n := len(f.present()); s.everywhere && n != len(clusterIDs) || !s.everywhere && n != s.stays+f.expected() {
		f.t.Errorf("after a %s: services on %v", s.name, f.present())
	}
	if s.settle != nil {
		s.settle(f)
	}
	// The same request works afterwards.
	if !s.everywhere {
		f.must(f.create("afterwards"))
	}
	f.must(f.remove())
	f.quiet()
	if left := f.present(); len(left) > 0 {
		f.t.Errorf("after the deletion: services on %v", left)
	}
	f.forget()
}

// foreign puts somebody else's service where the last replica goes.
func (f *federation) foreign() {
	f.must(f.sims[clusterIDs[2]].PutService(`{"name":"` + services[2] + `","image":"somebody/elses","script":"#!/bin/sh\n"}`))
}

// expected is how many services with our names are there though nothing is federated.
func (f *federation) expected() int {
	if v, ok := f.sims[clusterIDs[2]].Service(services[2]); ok && v.Image == "somebody/elses" {
		return 1
	}
	return 0
}

// unforeign checks that the foreign service still stands, and takes it away.
func (f *federation) unforeign() {
	f.t.Helper()
	if f.expected() != 1 {
		f.t.Error("the foreign service was touched")
	}
	deleteDirectly(f.t, f.urls[clusterIDs[2]]+"/system/services/"+services[2])
}

func (f *federation) fault(fault oscarsim.Fault) { f.must(f.sims[clusterIDs[2]].SetFault(fault)) }

func (f *federation) must(err error) {
	f.t.Helper()
	if e, ok := errors.AsType[*client.Error](err); ok {
		f.t.Fatalf("%v %+v", err, e.Problem)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func writeIdentity(t testing.TB) string {
	t.Helper()
	path := t.TempDir() + "/identity.age"
	if _, err := seal.LoadOrCreate(path); err != nil {
		t.Fatal(err)
	}
	return path
}
