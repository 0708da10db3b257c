package jobs

import (
	"maps"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/view"
)

// active are the federations whose queues the next scan looks at. A federation whose jobs cannot be
// assigned is left out until something changes that can let one be assigned, as kube-scheduler keeps
// pods that it cannot place apart from its active queue: a scan costs what it can place, not what
// waits. Every assignTick a scan looks at all.
type active struct {
	mu  sync.Mutex
	all bool
	of  map[string]bool
}

func newActive() active { return active{all: true, of: map[string]bool{}} }

// add enters what a scan has to look at again.
func (a *active) add(s scope) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = a.all || s.all
	for uid := range s.of {
		a.of[uid] = true
	}
}

// take empties the set.
func (a *active) take() scope {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := scope{all: a.all, of: a.of}
	a.all, a.of = false, map[string]bool{}
	return out
}

// scope is what a scan looks at: the queues of some federations, or of all.
type scope struct {
	all bool
	of  map[string]bool
}

// activate enters the federations whose jobs can perhaps be assigned since a change.
func (d *dispatcher) activate(v *view.View, news *view.Changes) {
	s := scope{all: news.Meta != nil || news.Clusters[""], of: map[string]bool{}}
	add := func(uid string) {
		if v.Jobs.Queued.Get(uid).Len() > 0 {
			s.of[uid] = true
		}
	}
	onCluster := func(clusters map[string]bool) {
		for cluster := range clusters {
			for uid := range v.OnCluster.Of(cluster) {
				add(uid)
			}
		}
	}
	for uid := range news.Federations {
		add(uid)
	}
	for id := range news.Jobs {
		add(v.Jobs.ByID.Head(id).Federation)
	}
	if v.Jobs.Queued.Len() > 0 {
		onCluster(news.Clusters)
		onCluster(news.Freed)
	}
	d.active.add(s)
}

// scope is what the next scan looks at: what is active, and the queues whose time has come.
func (d *dispatcher) scope(now time.Time) scope {
	out := d.active.take()
	if time.Since(d.scannedAll) >= assignTick {
		out.all = true
	}
	for uid, at := range d.due {
		if !at.After(now) {
			out.of[uid] = true
		}
	}
	return out
}

// scanned notes when the queues that a round has looked at are due, and returns when the next one is.
func (d *dispatcher) scanned(p *round) time.Duration {
	if p.scope.all {
		d.scannedAll = time.Now()
		clear(d.due)
	}
	for uid := range p.scope.of {
		delete(d.due, uid)
	}
	maps.Copy(d.due, p.due)
	next := assignTick
	for _, at := range d.due {
		next = min(next, max(at.Sub(p.now), time.Millisecond))
	}
	return next
}
