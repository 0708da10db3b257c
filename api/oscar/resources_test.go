package oscar

import (
	"math"
	"testing"
)

func TestResources(t *testing.T) {
	for _, c := range []struct {
		cpu, memory string
		gpu         bool
		want        Resources
		bad         bool
	}{
		{"", "", false, Resources{200, 256 << 20, 0}, false},
		{"500m", "0.5Gi", false, Resources{500, 512 << 20, 0}, false},
		{"0.5", "512Mi", true, Resources{500, 512 << 20, 1}, false},
		{"2", "1G", false, Resources{2000, 1e9, 0}, false},
		{"0.0001", "0.5", false, Resources{1, 1, 0}, false}, // rounded up: nothing is free of charge
		{"0", "0", false, Resources{}, false},
		// Kubernetes takes these, and counts them as 0, or as less.
		{"9223372036854776", "1e19", false, Resources{math.MaxInt64, math.MaxInt64, 0}, false},
		{"1e18", "8Ei", false, Resources{math.MaxInt64, math.MaxInt64, 0}, false},
		{"1e99", "1e99", false, Resources{math.MaxInt64, math.MaxInt64, 0}, false},
		{"9223372036854774", "7Ei", false, Resources{9223372036854774000, 7 << 60, 0}, false},
		{"lots", "1Gi", false, Resources{}, true},
		{"1", "-1Gi", false, Resources{}, true},
		{"1", "1e999999999", false, Resources{}, true},
	} {
		got, err := (&Service{CPU: c.cpu, Memory: c.memory, EnableGPU: c.gpu}).Resources()
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("cpu %q memory %q: %+v, %v; want %+v", c.cpu, c.memory, got, err, c.want)
		}
	}
}
