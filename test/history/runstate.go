package history

import (
	"math/rand/v2"
	"slices"

	"github.com/oscarfed/oscarfed/store/record"
)

// exposedService is the number of a service that only one client uses, and that is exposed.
const exposedService = 100

// Operations on services that are exposed.
const (
	freeStop  = "stop"
	freeStart = "start"
)

// drawRunState draws, for half of the plans, a client that stops and starts a service while it
// changes it.
func (d *drawer) drawRunState(rng *rand.Rand) {
	if rng.IntN(2) > 0 {
		return
	}
	ops := append(freeOps(), freeCreate, freeStop, freeStop, freeStop, freeStop, freeStart, freeStart, freeStart)
	op := freeCreate
	with := &drawer{rng: rng, plan: d.plan, length: d.length}
	with.client(exposedClient, 6+rng.IntN(12), func() Step {
		f := &Free{
			Op: op, Service: exposedService, Topology: pick(rng, "star", "tree", "mesh"), Members: uint8(rng.UintN(1 << d.plan.Shape.Clusters)),
		}
		op = pick(rng, ops...)
		return Step{Free: f}
	})
}

// Stops says whether somebody stops a service.
func (p Plan) Stops() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Free != nil && s.Free.Op == freeStop })
}

// runs says that a service runs otherwise than it was ordered; empty when it does not.
func runs(ordered record.RunState, stopped bool) string {
	switch {
	case ordered == record.RunStopped && !stopped:
		return "is to be stopped, and runs"
	case ordered == record.RunStarted && stopped:
		return "is to run, and is stopped"
	}
	return ""
}
