package history

import (
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/test/world"
)

// calm knows since when nothing disturbs each control plane's work on the store.
type calm struct {
	mu sync.Mutex
	// of are the control planes, and the store, which all of them need.
	of map[string]*disturbed
	// hosts are all hosts with what happens to them or on their wires.
	hosts map[string]*disturbed
}

// disturbed is a host with the number of faults that it has now, and when the last one ended.
type disturbed struct {
	faults int
	ended  time.Time
}

func newCalm(shape Shape) *calm {
	c := &calm{of: map[string]*disturbed{world.HostEtcd: {ended: time.Now()}}, hosts: map[string]*disturbed{}}
	for i := range shape.ControlPlanes {
		c.of[hostControlPlane(i)] = &disturbed{ended: time.Now()}
	}
	return c
}

// disturbs is which host a fault disturbs; empty for none. A fault that is not known here disturbs
// them all.
func (c *calm) disturbs(f Fault) string {
	switch f.Kind {
	case faultKill, faultFreeze, faultClock:
		if c.of[f.On] == nil {
			return ""
		}
		return f.On
	case faultCut, faultDeaf, faultDelay, faultLag, faultBreak, faultHang:
		at := f.On
		if at == world.HostEtcd {
			at = f.To
		} else if f.To != world.HostEtcd {
			return ""
		}
		if c.of[at] == nil {
			return ""
		}
		return at
	case faultOSCAR, faultDrift:
		return ""
	}
	return world.HostEtcd
}

// begins notes that a fault begins, and gives what notes its end.
func (c *calm) begins(f Fault) (ends func()) {
	var all []*disturbed
	if d := c.of[c.disturbs(f)]; d != nil {
		all = append(all, d)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.Kind != faultOSCAR {
		for _, host := range []string{f.On, f.To} {
			if c.hosts[host] == nil {
				c.hosts[host] = &disturbed{}
			}
			all = append(all, c.hosts[host])
		}
	}
	for _, d := range all {
		d.faults++
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, d := range all {
			d.faults--
			d.ended = time.Now()
		}
	}
}

// disturbed says whether one of the hosts has a fault, or had one since a time.
func (c *calm) disturbed(hosts []string, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(hosts, func(host string) bool {
		d := c.hosts[host]
		return d != nil && (d.faults > 0 || d.ended.After(since))
	})
}

// since is since when nothing disturbs the control plane that was left alone for longest; false when
// all of them are disturbed.
func (c *calm) since() (since time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	etcd := c.of[world.HostEtcd]
	if etcd.faults > 0 {
		return since, false
	}
	for host, d := range c.of {
		if host == world.HostEtcd || d.faults > 0 {
			continue
		}
		at := d.ended
		if etcd.ended.After(at) {
			at = etcd.ended
		}
		if !ok || at.Before(since) {
			since, ok = at, true
		}
	}
	return since, ok
}
