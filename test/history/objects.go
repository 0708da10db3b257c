package history

import (
	"fmt"
	"slices"
	"sync"

	"github.com/oscarfed/oscarfed/test/world"
)

// objects are what users have put into buckets. No deletion in a history is one of data, so they
// outlive services.
type objects struct {
	mu sync.Mutex
	// in has the names of objects by cluster and bucket.
	in map[[2]string][]string
	// lost are buckets that somebody may have deleted with a service, directly at OSCAR.
	lost map[[2]string]bool
}

func newObjects() *objects {
	return &objects{in: map[[2]string][]string{}, lost: map[[2]string]bool{}}
}

// put stores an object in a bucket, if there is one.
func (o *objects) put(c *world.Cluster, bucket, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at := [2]string{c.ID, bucket}; !o.lost[at] && c.Sim.Upload(bucket, name) == nil {
		o.in[at] = append(o.in[at], name)
	}
}

// forget is called before somebody deletes a service directly: its bucket goes with it, now or when
// OSCAR does it.
func (o *objects) forget(c *world.Cluster, bucket string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost[[2]string{c.ID, bucket}] = true
}

// missing says which objects are gone.
func (o *objects) missing(w *world.World) (out []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for at, names := range o.in {
		if o.lost[at] {
			continue
		}
		bucket, _ := w.Cluster(at[0]).Sim.Bucket(at[1])
		for _, name := range names {
			if !slices.Contains(bucket.Objects, name) {
				out = append(out, fmt.Sprintf("%s/%s/%s", at[0], at[1], name))
			}
		}
	}
	slices.Sort(out)
	return out
}
