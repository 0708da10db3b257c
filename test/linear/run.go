package linear

import (
	"context"
	"math/rand/v2"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/test/process"
)

// Size of a history.
type Size struct {
	// Services are the names that clients meet at, Clients how many there are, and
	// Operations what each of them does.
	Services, Clients, Operations int
	// Long lets some faults last until a control plane has given up.
	Long bool
}

// History makes one: clients call, faults happen, and when all is healed and at
// rest the services are read once more and deleted. The seed decides what is asked
// and what is broken, not when.
func (w *World) History(ctx context.Context, seed uint64, size Size, tally *Tally) (*History, error) {
	h := NewHistory(seed, size.Services, w.clusters)
	caller := func(number int, rng *rand.Rand) *Caller {
		return h.Caller(number, func() *client.Client { return w.API(process.ControlPlaneName(rng.IntN(controlPlanes))) })
	}
	if err := w.disturbed(ctx, seed, size.Long, tally, func(ctx context.Context) {
		var g errgroup.Group
		for i := range size.Clients {
			g.Go(func() error {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				caller(i, rng).run(ctx, rng, size.Operations)
				return nil
			})
		}
		_ = g.Wait() // clients do not fail
	}); err != nil {
		return h, err
	}
	if err := w.Settle(ctx); err != nil {
		return h, err
	}
	last := caller(size.Clients, rand.New(rand.NewPCG(seed, seed)))
	last.ReadAndDelete(ctx, 2*controlPlanes)
	return h, w.Settle(ctx)
}

// disturbed calls fn while two nemeses are at work.
func (w *World) disturbed(ctx context.Context, seed uint64, long bool, tally *Tally, fn func(context.Context)) error {
	g, ctx := errgroup.WithContext(ctx)
	harm, stop := context.WithCancel(ctx)
	for i, next := range []func(context.Context, *nemesis) (fault, error){killing, disturbing} {
		n := &nemesis{world: w, rng: rand.New(rand.NewPCG(seed, 1000+uint64(i))), long: long, tally: tally, next: next}
		g.Go(func() error { return n.run(harm) })
	}
	g.Go(func() error {
		defer stop()
		fn(ctx)
		return nil
	})
	return g.Wait()
}
