package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// clusterID names the i-th cluster of a fleet.
func clusterID(i int) string { return fmt.Sprintf("edge-%04d", i) }

// fleet holds clusters in one process: each a simulated OSCAR and a real syncer
// with its own session and connections to etcd. The two speak without a network:
// what an OSCAR's network costs is not the federation's.
type fleet struct {
	ctx context.Context
	net *network

	mu       sync.Mutex
	clusters map[int]*member
	bare     *bareClients
}

// member is one cluster.
type member struct {
	sim      *oscarsim.Sim
	oscar    *manager.Client
	identity *seal.Identity
	syncer   *syncer.Syncer
	stop     func() error
}

// FleetStart says which clusters to start, and how.
type FleetStart struct {
	Etcd, PasswordFile string
	From, To           int
	Latency            time.Duration
	// JobsRun says that Jobs run by themselves, for an instant, on nodes that are never full.
	JobsRun bool
}

// start starts clusters, those that are known with their OSCAR as it was, and
// returns when all their syncers are ready.
func (f *fleet) start(in FleetStart) error {
	var wg sync.WaitGroup
	errs := make([]error, in.To-in.From)
	// As many at once as a machine of two CPUs can make keys for.
	turn := make(chan struct{}, 64)
	for i := in.From; i < in.To; i++ {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
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
		cfg := oscarsim.Config{ClusterID: clusterID(i), User: user, Password: password, Latency: in.Latency}
		if in.JobsRun {
			cfg.Nodes = []oscarsim.Node{{Name: "large", CPU: 100_000_000, Memory: 1 << 50}}
			cfg.Workload = &oscarsim.Workload{Min: time.Millisecond, Max: time.Millisecond}
		}
		sim := oscarsim.New(cfg)
		client, err := manager.New(manager.Config{
			Endpoint: "http://" + clusterID(i), User: user, PasswordFile: in.PasswordFile, Transport: direct{sim.Handler()},
		})
		if err != nil {
			return err
		}
		id, err := seal.Generate()
		if err != nil {
			return err
		}
		m = &member{sim: sim, oscar: client, identity: id}
	}
	quiet := slog.New(slog.DiscardHandler)
	st, err := store.Open(f.ctx, store.Config{
		Endpoints: []string{in.Etcd}, Logger: quiet, Deadline: time.Minute, RequestTimeout: 20 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(f.net.dial)},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", clusterID(i), err)
	}
	s, err := syncer.New(syncer.Config{ClusterID: clusterID(i), Store: st, OSCAR: m.oscar, Identity: m.identity, Logger: quiet})
	if err != nil {
		return errors.Join(err, st.Close())
	}
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	m.syncer = s
	m.stop = func() error {
		cancel()
		return errors.Join(<-ended, st.Close())
	}
	f.mu.Lock()
	f.clusters[i] = m
	f.mu.Unlock()
	return nil
}

// stop ends all syncers in order; their OSCARs stay.
func (f *fleet) stop() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var wg sync.WaitGroup
	errs := make(chan error, len(f.clusters))
	for _, m := range f.clusters {
		wg.Go(func() { errs <- m.stop() })
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
		out[i] = m.sim.Calls()[oscarsim.OpList]
	}
	return out
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

// network is what all clients of a fleet dial through. It can be cut.
type network struct {
	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

func newNetwork() *network { return &network{conns: map[net.Conn]struct{}{}} }

var errCut = errors.New("the network is cut")

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	cut := n.cut
	n.mu.Unlock()
	if cut {
		return nil, errCut
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	tracked := &trackedConn{Conn: conn, network: n}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		return nil, errors.Join(errCut, conn.Close())
	}
	n.conns[tracked] = struct{}{}
	return tracked, nil
}

// set cuts all connections, or lets new ones be made.
func (n *network) set(cut bool) {
	n.mu.Lock()
	n.cut = cut
	var open []net.Conn
	if cut {
		for c := range n.conns {
			open = append(open, c)
		}
	}
	n.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

type trackedConn struct {
	net.Conn
	network *network
}

func (c *trackedConn) Close() error {
	c.network.mu.Lock()
	delete(c.network.conns, c)
	c.network.mu.Unlock()
	return c.Conn.Close()
}

var _ io.Closer = (*trackedConn)(nil)
