package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

// parallel compares a create over ten members with one over one, on OSCARs that
// take as long as real ones.
func parallel(ctx context.Context, o options, out *report) (err error) {
	w, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.grow(ctx, 10, oscarsim.RealLatency); err != nil {
		return err
	}
	took := map[int]samples{}
	for round := range o.repeated(3) {
		for _, n := range []int{1, 10} {
			name := fmt.Sprintf("slow-%d-%d", n, round)
			sent, err := w.create(ctx, name, 0, n)
			if err != nil {
				return err
			}
			took[n] = append(took[n], time.Since(sent))
			if err := w.remove(ctx, name); err != nil {
				return err
			}
		}
	}
	out.heading(fmt.Sprintf("A create on OSCARs of %s", oscarsim.RealLatency))
	out.table([]string{"members", "rounds", "answered, p50", "to the OSCAR's own time", "to one member"}, [][]string{
		{"1", fmt.Sprint(len(took[1])), seconds(took[1].p(50)), ratio2(took[1].p(50), oscarsim.RealLatency), "1"},
		{"10", fmt.Sprint(len(took[10])), seconds(took[10].p(50)), ratio2(took[10].p(50), oscarsim.RealLatency), ratio2(took[10].p(50), took[1].p(50))},
	})
	return nil
}

func ratio2(a, b time.Duration) string { return fmt.Sprintf("%.3fx", float64(a)/float64(b)) }
