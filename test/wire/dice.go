package wire

import (
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strconv"
)

// dice is the chance of one direction of one connection. It costs nothing until it is used.
type dice struct {
	seed     uint64
	from, to string
	ordinal  int
	what     string
	rng      *rand.Rand
}

func (d *dice) rand() *rand.Rand {
	if d.rng == nil {
		h := fnv.New64a()
		for _, part := range []string{d.from, d.to, strconv.Itoa(d.ordinal), d.what} {
			_, _ = io.WriteString(h, part+"\x00")
		}
		d.rng = rand.New(rand.NewPCG(d.seed, h.Sum64()))
	}
	return d.rng
}

func (d *dice) float() float64 { return d.rand().Float64() }

// some draws how many of n things are kept: none, all or some.
func (d *dice) some(n int) int {
	switch d.rand().IntN(3) {
	case 0:
		return 0
	case 1:
		return n
	}
	return d.rand().IntN(n + 1)
}
