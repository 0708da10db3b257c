package oscar

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Resources are what one pod of a service asks its node for.
type Resources struct {
	// MilliCPU in thousandths of a core, rounded up.
	MilliCPU int64
	// MemoryBytes, rounded up.
	MemoryBytes int64
	// GPUs is 1 or 0: OSCAR asks for one nvidia.com/gpu.
	GPUs int64
}

// Resources reads the quantities of a service as Kubernetes does, with OSCAR's
// defaults for absent ones: `500m` is half a core. What is too large to count is the largest
// number. The error says which quantity is
// none; Validate has refused it before.
func (s *Service) Resources() (Resources, error) {
	cpu, err := readQuantity("cpu", s.CPU, DefaultCPU)
	if err != nil {
		return Resources{}, err
	}
	memory, err := readQuantity("memory", s.Memory, DefaultMemory)
	if err != nil {
		return Resources{}, err
	}
	r := Resources{MilliCPU: math.MaxInt64, MemoryBytes: math.MaxInt64}
	if cpu.CmpInt64(math.MaxInt64/1000) < 0 {
		r.MilliCPU = cpu.MilliValue()
	}
	if memory.CmpInt64(math.MaxInt64) < 0 {
		r.MemoryBytes = memory.Value()
	}
	if s.EnableGPU {
		r.GPUs = 1
	}
	return r, nil
}

func readQuantity(path, value, fallback string) (resource.Quantity, error) {
	if value == "" {
		value = fallback
	}
	if vs := checkQuantity(path, value, `"0.5"`); len(vs) > 0 {
		return resource.Quantity{}, fmt.Errorf("%s", vs[0].Message)
	}
	return resource.ParseQuantity(value)
}
