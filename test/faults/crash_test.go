package faults_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
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
		settle: func(f *federation) { f.Sim(clusterIDs[2]).ClearFaults() },
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
			if _, stands := f.Sim(clusterIDs[0]).Bucket(services[0]); stands {
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
			deleteDirectly(f.t, f.URL(clusterIDs[0])+"/system/services/"+services[0])
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

// deaths is how often a process may be killed during one request, at most: the request
// has a time limit, and a syncer's successor waits for its session to end.
const deaths = 4

// killing is one scenario, and the fail points that are left to be met with it. Several
// federations share them.
type killing struct {
	scenario
	points []string
}

// killings are the scenarios with their points, those of the control plane and of the
// syncer apart, in the order in which they are passed.
func killings() []*killing {
	var all []*killing
	for _, points := range [][]string{controlplane.FailPoints(), syncer.FailPoints()} {
		of := map[string]*killing{}
		for _, point := range points {
			s := scenarioOf(point)
			e := of[s.name]
			if e == nil || len(e.points) == deaths {
				e = &killing{scenario: s}
				of[s.name], all = e, append(all, e)
			}
			e.points = append(e.points, point)
		}
	}
	return all
}

// TestKilledAtEveryFailPoint kills the control plane, and the syncer of the
// coordinator's cluster, at every fail point of create, delete and the removal of a
// cluster, and starts it again to be killed at the next one. At the end there is all or
// nothing, nothing foreign was touched (the canaries), every promise held at every
// revision (the guard), and the same request works.
func TestKilledAtEveryFailPoint(t *testing.T) {
	t.Parallel()
	todo := killings()
	want := 0
	for _, e := range todo {
		want += len(e.points)
	}
	var mu sync.Mutex
	hit := map[string]bool{}
	next := func() (e *killing) {
		mu.Lock()
		defer mu.Unlock()
		if len(todo) > 0 {
			e, todo = todo[0], todo[1:]
		}
		return e
	}
	// A federation waits most of the time, for leases to end: several share the killings,
	// beside each other whatever -parallel says.
	var group sync.WaitGroup
	for share := range 3 {
		group.Go(func() {
			t.Run(fmt.Sprintf("federation%d", share), func(t *testing.T) {
				f := newFederation(t)
				for e := next(); e != nil && !t.Failed(); e = next() {
					for len(e.points) > 0 && !t.Failed() {
						t.Run(e.points[0], func(t *testing.T) {
							f.t, f.key = t, e.points[0]
							met := f.killedAt(e.points, e.scenario)
							mu.Lock()
							defer mu.Unlock()
							for _, point := range e.points[:met] {
								hit[point] = true
							}
							e.points = e.points[met:]
						})
					}
				}
				f.t = t
			})
		})
	}
	group.Wait()
	t.Logf("killed at %d of %d fail points", len(hit), want)
	if len(hit) != want {
		t.Errorf("hit %d distinct fail points, there are %d", len(hit), want)
	}
}

// killedAt has a process killed at the points, in their order, during one request, and
// says how many it met: the first always, and the next ones unless their step was taken
// at the moment of the death before.
func (f *federation) killedAt(points []string, s scenario) (met int) {
	f.t.Helper()
	if s.arrange != nil {
		s.arrange(f)
	}
	ofSyncer := strings.HasPrefix(points[0], "syncer.")
	victim := f.restart(ofSyncer, points[0], f.stop)
	answer := make(chan error, 1)
	asked, ended := false, false
	ask := func() {
		asked, ended = f.api != nil, false
		if asked {
			go func() { answer <- s.act(f) }()
		}
	}
	ask()
	f.eventually(fmt.Sprintf("the %s ends, killed at %s", s.name, points[0]), func() bool {
		if victim.Killed() {
			met++
			armed := ""
			if met < len(points) {
				armed = points[met]
			}
			if !ofSyncer && asked {
				if err := <-answer; err != nil { // it broke off; or it was in time
					f.t.Logf("%v", err)
				}
			}
			victim = f.restart(ofSyncer, armed, nil)
			if !ofSyncer {
				ask() // the same again
			}
			return false
		}
		select {
		case err := <-answer:
			got := code(err)
			asked, ended = false, slices.Contains(s.ends, got)
			switch dying := !ofSyncer && slices.Contains([]string{noAnswer, "unknown_outcome", "unavailable"}, got); {
			case ended:
			case dying: // which is seen in a moment
				f.t.Logf("%v", err)
			default:
				f.t.Errorf("the %s ended with %q, want one of %q: %v", s.name, got, s.ends, err)
				ended = true
			}
		default:
		}
		return ended && met > 0 && f.Unsettled(f.t.Context()) == nil
	})
	if met < len(points) {
		f.restart(ofSyncer, "", f.stop) // nothing is to die from here on
	}
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
	return met
}

// restart starts the control plane, or the syncer of the coordinator's cluster, to die at
// a fail point, and ends the one before it if end is not nil.
func (f *federation) restart(syncer bool, failAt string, end func(*process.Child)) *process.Child {
	f.t.Helper()
	name := first
	if syncer {
		name = clusterIDs[0]
	}
	if end != nil {
		end(f.Child(name))
	}
	if !syncer {
		var err error
		f.api, err = f.StartControlPlane(f.t.Context(), name, failAt)
		f.must(err)
		return f.Child(name)
	}
	f.must(f.StartSyncer(name, failAt))
	if end != nil {
		f.must(f.AwaitSyncer(f.t.Context(), name))
	}
	return f.Child(name)
}

// stop ends a process in order, unless it has met its fail point.
func (f *federation) stop(c *process.Child) {
	f.t.Helper()
	if err := c.Stop(); err != nil && !c.Killed() {
		f.t.Error(err)
	}
}

// foreign puts somebody else's service where the last replica goes.
func (f *federation) foreign() {
	f.must(f.Sim(clusterIDs[2]).PutService(`{"name":"` + services[2] + `","image":"somebody/elses","script":"#!/bin/sh\n"}`))
}

// expected is how many services with our names are there though nothing is federated.
func (f *federation) expected() int {
	if v, ok := f.Sim(clusterIDs[2]).Service(services[2]); ok && v.Image == "somebody/elses" {
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
	deleteDirectly(f.t, f.URL(clusterIDs[2])+"/system/services/"+services[2])
}

func (f *federation) fault(fault oscarsim.Fault) { f.must(f.Sim(clusterIDs[2]).SetFault(fault)) }

func (f *federation) must(err error) {
	f.t.Helper()
	if e, ok := errors.AsType[*client.Error](err); ok {
		f.t.Fatalf("%v %+v", err, e.Problem)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}
