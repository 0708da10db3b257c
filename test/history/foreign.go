package history

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/world"
)

const (
	// before is how old a request may be that still meets what has taken the place of its service,
	// and meant how late one comes whose sender looked just before.
	before = 6 * time.Minute
	meant  = 3 * time.Second
)

// foreign are services on OSCARs that are somebody else's, under names of ours.
type foreign struct {
	// disturbed says whether a host has, or had since a time, a fault.
	disturbed func(hosts []string, since time.Time) bool
	fail      func(format string, args ...any)
	log       func(format string, args ...any)
}

func foreignDefinition(name string, number int) string {
	bucket := fmt.Sprintf("foreign-%s-%d", name, number)
	doc, err := json.Marshal(map[string]any{
		"name": name, "image": "example.org/foreign", "script": script(number), "owner": "cluster_admin",
		"environment": map[string]any{"secrets": map[string]string{"KEY": "foreign " + name}},
		"input":       []map[string]string{{"storage_provider": "minio.default", "path": bucket + "/in"}},
	})
	if err != nil {
		panic(err)
	}
	return string(doc)
}

// stranger is a foreign service as it stands.
type stranger struct {
	Service oscarsim.ServiceView
	Stands  bool
	Secret  map[string]string
	Jobs    []oscarsim.JobView
}

func lookAt(sim *oscarsim.Sim, name string) stranger {
	var s stranger
	s.Service, s.Stands = sim.Service(name)
	s.Secret, _ = sim.Secret(name)
	s.Jobs = sim.Jobs(name)
	return s
}

// put makes a service that is not of the federation, and demands that it stands untouched until
// its owner deletes it.
func (f *foreign) put(ctx context.Context, c *world.Cluster, name, def string, stands time.Duration) {
	if err := c.Sim.PutService(def); err != nil {
		f.log("%s/%s: no foreign service: %v", c.ID, name, err)
		return
	}
	planted, at := lookAt(c.Sim, name), time.Now()
	select {
	case <-time.After(stands):
	case <-ctx.Done():
	}
	if now := lookAt(c.Sim, name); !reflect.DeepEqual(planted, now) && !f.crossed(c, name, at) {
		f.fail("what somebody else put at %s/%s was touched (-put +now):\n%s", c.ID, name, cmp.Diff(planted, now))
	}
	c.Sim.RemoveService(name)
}

// crossed says that a request may have met the foreign service that was meant for ours: nobody
// can know what takes its place while it is on its way.
func (f *foreign) crossed(c *world.Cluster, name string, put time.Time) bool {
	if f.disturbed([]string{world.HostSyncer(c.ID), world.HostOSCAR(c.ID)}, put.Add(-time.Minute)) {
		return true
	}
	return slices.ContainsFunc(c.Sim.Log(), func(call oscarsim.Call) bool {
		late := call.Time.Sub(put)
		atWork := call.Status == 0 || call.Done.After(put)
		return call.Service == name && call.Op != oscarsim.OpJob && (late <= 0 && late > -before && atWork || late > 0 && late < meant)
	})
}
