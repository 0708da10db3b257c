package syncer_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// proxy stands between a syncer and its OSCAR, to stop it or to lie.
type proxy struct {
	syncer.OSCAR
	create  func(ctx context.Context, name string, body []byte, as manager.Bearer, timeout time.Duration) error
	get     func(ctx context.Context, name string) (*manager.Service, error)
	buckets func(ctx context.Context) ([]manager.Bucket, error)
	erase   func(ctx context.Context, name string, timeout time.Duration) error
	storage func(ctx context.Context) (manager.Storage, error)
	jobs    func(ctx context.Context, service, page string) (manager.JobPage, error)
	info    func(ctx context.Context) (manager.Info, error)
	state   func(ctx context.Context, name string) (string, error)
}

func (p *proxy) Deployment(ctx context.Context, name string) (string, error) {
	if p.state != nil {
		return p.state(ctx, name)
	}
	return p.OSCAR.Deployment(ctx, name)
}

func (p *proxy) Info(ctx context.Context) (manager.Info, error) {
	if p.info != nil {
		return p.info(ctx)
	}
	return p.OSCAR.Info(ctx)
}

func (p *proxy) Jobs(ctx context.Context, service, page string) (manager.JobPage, error) {
	if p.jobs != nil {
		return p.jobs(ctx, service, page)
	}
	return p.OSCAR.Jobs(ctx, service, page)
}

func (p *proxy) Delete(ctx context.Context, name string, timeout time.Duration) error {
	if p.erase != nil {
		return p.erase(ctx, name, timeout)
	}
	return p.OSCAR.Delete(ctx, name, timeout)
}

func (p *proxy) Storage(ctx context.Context) (manager.Storage, error) {
	if p.storage != nil {
		return p.storage(ctx)
	}
	return p.OSCAR.Storage(ctx)
}

func (p *proxy) Buckets(ctx context.Context) ([]manager.Bucket, error) {
	if p.buckets != nil {
		return p.buckets(ctx)
	}
	return p.OSCAR.Buckets(ctx)
}

func (p *proxy) Create(ctx context.Context, name string, body []byte, as manager.Bearer, timeout time.Duration) error {
	if p.create != nil {
		return p.create(ctx, name, body, as, timeout)
	}
	return p.OSCAR.Create(ctx, name, body, as, timeout)
}

func (p *proxy) Get(ctx context.Context, name string) (*manager.Service, error) {
	if p.get != nil {
		return p.get(ctx, name)
	}
	return p.OSCAR.Get(ctx, name)
}

// quotingProxy refuses each POST with a text that quotes its body.
func (r *rig) quotingProxy() syncer.OSCAR {
	return &proxy{OSCAR: r.oscar("syncer"), create: func(_ context.Context, name string, body []byte, _ manager.Bearer, _ time.Duration) error {
		return &manager.APIError{Op: manager.OpCreate, Service: name, Status: 400, Body: "cannot read " + string(body)}
	}}
}

// gate stops its callers at a point, once armed.
type gate struct {
	mu      sync.Mutex
	armed   bool
	reached chan struct{}
	opened  chan struct{}
}

func newGate() *gate { return &gate{reached: make(chan struct{}), opened: make(chan struct{})} }

// arm makes the next caller stop.
func (g *gate) arm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = true
}

func (g *gate) pass() {
	g.mu.Lock()
	stop := g.armed
	g.armed = false
	g.mu.Unlock()
	if stop {
		close(g.reached)
		<-g.opened
	}
}

// healer is a Kubernetes that can make PodTemplates, once it is able to.
type healer struct {
	kube.Absent
	sim  *oscarsim.Sim
	able atomic.Bool
}

func (h *healer) Heal(ctx context.Context, service string) error {
	if !h.able.Load() {
		return h.Absent.Heal(ctx, service)
	}
	return h.sim.PutPodTemplate(service)
}
