package history

import (
	"context"
	"math/rand/v2"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
)

// A batch is some services that one request creates, all or none: test/invariants judges that.

const (
	// batchService is the number of the first service of a batch, and batchSize how many it has.
	batchService = 120
	batchSize    = 3
	// freeTogether creates them.
	freeTogether = "create together"
)

// drawBatch draws, for a third of the plans, a client that creates services together, and deletes and
// changes single ones.
func (d *drawer) drawBatch(rng *rand.Rand) {
	if rng.IntN(3) > 0 {
		return
	}
	with := &drawer{rng: rng, plan: d.plan, length: d.length}
	with.client(batchClient, 3+rng.IntN(8), func() Step {
		f := &Free{
			Op:      pick(rng, freeTogether, freeTogether, freeDelete, freeDelete, freeDelete, freeChange),
			Service: batchService + rng.IntN(batchSize), Topology: pick(rng, "star", "tree", "mesh"), Members: uint8(rng.UintN(1 << d.plan.Shape.Clusters)),
		}
		return Step{Free: f}
	})
}

// together creates a batch.
func (u *users) together(ctx context.Context, f Free) error {
	var all []*oscar.Service
	for i := range batchSize {
		f.Service = batchService + i
		all = append(all, u.definition(freeName(f.Service), u.clusters[f.Service%len(u.clusters)], f))
	}
	_, err := u.api().CreateServices(ctx, all, client.CreateOptions{Wait: freeWait / 2})
	return err
}
