package main

import (
	"math"
	"math/rand/v2"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// placed is one federation to create: its replicas stand on n clusters that follow each other.
type placed struct{ first, n int }

// populationSeed draws the same federations in every run.
const populationSeed = 20261122

// population draws federations of together replicas on so many clusters. Their sizes are
// long-tailed: a bounded Pareto distribution with exponent 1.16, from 1 to the most that a
// federation may have, so that a fifth of them has about four fifths of the replicas.
func population(clusters, replicas int) []placed {
	const alpha = 1.16
	rng := rand.New(rand.NewPCG(populationSeed, 0))
	most := float64(min(oscar.MaxReplicas, clusters))
	tail := 1 - math.Pow(most, -alpha)
	var out []placed
	for left := replicas; left > 0; {
		n := int(math.Pow(1-rng.Float64()*tail, -1/alpha))
		n = min(max(n, 1), int(most), left)
		out = append(out, placed{first: rng.IntN(clusters - n + 1), n: n})
		left -= n
	}
	return out
}
