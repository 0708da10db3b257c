package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/syncer/token"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// clusterID names the i-th cluster of a fleet.
func clusterID(i int) string { return fmt.Sprintf("edge-%04d", i) }

// fleet holds clusters in one process: each a simulated OSCAR and a real syncer
// with its own session and connections to etcd. The two speak without a network:
// what an OSCAR's network costs is not the federation's.
type fleet struct {
	ctx context.Context
	// link is what all syncers reach etcd through. It can be cut.
	link *world.Link

	mu       sync.Mutex
	clusters map[int]*member
	bare     *bareClients
}

// member is one cluster.
type member struct {
	*world.Site
	syncer *world.SiteSyncer
}

// FleetStart says which clusters to start, and how.
type FleetStart struct {
	Etcd, PasswordFile, Issuer string
	From, To                   int
	Latency                    time.Duration
	// JobsRun says that Jobs run by themselves, for an instant, on nodes that are never full.
	JobsRun bool
	// Full says that their nodes have no room for a job, until Room is called.
	Full bool
}

// start starts clusters, those that are known with their OSCAR as it was, and
// returns when all their syncers are ready.
func (f *fleet) start(in FleetStart) error {
	var wg sync.WaitGroup
	errs := make([]error, in.To-in.From)
	// As many at once as a machine of two CPUs can make keys for.
	places := make(chan struct{}, 64)
	for i := in.From; i < in.To; i++ {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			errs[i-in.From] = f.startOne(i, in)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return f.until("all syncers are ready", func() bool { return f.ready() >= in.To-in.From })
}

func (f *fleet) startOne(i int, in FleetStart) error {
	f.mu.Lock()
	m := f.clusters[i]
	f.mu.Unlock()
	if m == nil {
		cfg := oscarsim.Config{ClusterID: clusterID(i), User: world.User, Password: world.Password, Latency: in.Latency, Users: userOf, Groups: []string{group}}
		if in.JobsRun {
			cfg.Nodes = []oscarsim.Node{{Name: "large", CPU: 100_000_000, Memory: 1 << 50}}
			cfg.Workload = &oscarsim.Workload{Min: time.Millisecond, Max: time.Millisecond}
		}
		if in.Full {
			cfg.Nodes = []oscarsim.Node{nodeWithRoom(0)}
		}
		site, err := world.NewSite(cfg)
		if err != nil {
			return err
		}
		m = &member{Site: site}
	}
	var err error
	m.syncer, err = m.StartSyncer(f.ctx, store.Config{
		Endpoints: []string{in.Etcd}, Deadline: time.Minute, RequestTimeout: 20 * time.Second,
		DialOptions: []grpc.DialOption{f.link.DialOption()},
	}, direct{m.Sim.Handler()}, in.PasswordFile, token.Issuer{URL: in.Issuer, ClientID: "oscarfed"})
	if err != nil {
		return fmt.Errorf("%s: %w", m.ID, err)
	}
	f.mu.Lock()
	f.clusters[i] = m
	f.mu.Unlock()
	return nil
}

// nodeWithRoom has room for so many pods of half a CPU.
func nodeWithRoom(pods int64) oscarsim.Node {
	used := 64000 - 500*pods
	return oscarsim.Node{Name: "node", CPU: 64000, Memory: 512 << 30, UsedCPU: used, RequestCPU: used}
}

// room lets so many pods onto each cluster.
func (f *fleet) room(pods int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.clusters {
		m.Sim.SetNodes(nodeWithRoom(pods))
	}
}

// stop ends all syncers in order; their OSCARs stay.
func (f *fleet) stop() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var wg sync.WaitGroup
	errs := make(chan error, len(f.clusters))
	for _, m := range f.clusters {
		wg.Go(func() { errs <- m.syncer.Stop() })
	}
	wg.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// ready counts syncers that hold their session and follow etcd.
func (f *fleet) ready() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, m := range f.clusters {
		if m.syncer.Ready() {
			n++
		}
	}
	return n
}

// lists counts, for each OSCAR, how often it was listed.
func (f *fleet) lists() map[int]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[int]int, len(f.clusters))
	for i, m := range f.clusters {
		out[i] = m.Sim.Calls()[oscarsim.OpList]
	}
	return out
}

// kept is how many refresh tokens all syncers keep.
func (f *fleet) kept() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.clusters {
		n += m.Vault.Len()
	}
	return n
}

// compared returns when every syncer is ready and has listed its OSCAR since.
func (f *fleet) compared(since map[int]int) error {
	return f.until("every OSCAR was listed", func() bool {
		now := f.lists()
		for i, n := range now {
			if n <= since[i] {
				return false
			}
		}
		return f.ready() == len(now)
	})
}

// until waits for what many goroutines do together.
func (f *fleet) until(what string, ok func() bool) error {
	return await.Try(f.ctx, what, func() (bool, error) { return ok(), nil })
}
