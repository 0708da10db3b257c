package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/jobs"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/linear"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

// Result is what a history came to.
type Result struct {
	// Operations have what the askers were told; they are to be checked when the bubble is over.
	Operations []*linear.History
	// Revisions of the store, jobs that were accepted, and how much time has gone by.
	Revisions int64
	Jobs      int
	Virtual   time.Duration
	Clusters  int
	// Transitions are the edges of the state machines that were taken.
	Transitions []invariants.Transition
}

// Play plays a plan and judges it. It is called inside a bubble; what is wrong fails the test.
func Play(t *testing.T, plan Plan) Result {
	t.Helper()
	began := time.Now()
	p := newPlayer(t, plan)
	observed := world.Go(t.Context(), p.observer.run)
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() { p.client(t.Context(), client) })
	}
	for scene := range maxScenes {
		group.Go(func() { p.client(t.Context(), sceneClient+scene) })
	}
	group.Go(func() { p.locals(t.Context()) })
	group.Go(func() { p.faults(t.Context()) })
	group.Wait()
	p.untouched()
	p.heal()
	p.judge()
	if err := observed.Stop(); err != nil {
		t.Error(err)
	}
	return Result{
		Operations: p.histories, Revisions: p.revisions, Jobs: len(p.users.jobs), Virtual: time.Since(began), Clusters: plan.Shape.All(),
		Transitions: p.transitions,
	}
}

// player plays one plan.
type player struct {
	t     *testing.T
	plan  Plan
	began time.Time
	net   *wire.Network
	w     *world.World
	// planes are the control planes, callers reach one of them each time.
	planes []*plane
	// operations are those that callers make now, and histories all of them: another one begins with a
	// restore.
	operations *linear.History
	histories  []*linear.History
	users      *users
	replay     *invariants.Replay
	people     *people // nil without any
	canaries   *canaries
	restore    restored
	// witnesses is where control planes keep what they have seen, in a plan with a restore. told says
	// that the next one is started with the word that the store was restored.
	witnesses string
	told      bool
	// revisions are those that were checked.
	revisions int64
	// transitions are the edges of the state machines that the replays have seen.
	transitions []invariants.Transition
	// checking has an element while the replay reads.
	checking chan struct{}
	// clocks are those of the control planes and the syncers.
	clocks map[string]*world.Clock
	// What is judged beside the store and the API.
	calm     *calm
	observer *observer
	foreign  *foreign
	objects  *objects

	mu sync.Mutex
	// down are the hosts that are killed or frozen now.
	down map[string]bool
	// registered are the uids of the registrations that were made anew, by cluster.
	registered map[string]string
	// swept are the events whose Jobs were deleted when they had ended, and drifted says that Jobs went with their
	// service.
	swept   map[string]bool
	drifted bool
}

// plane is a control plane at an address of its own.
type plane struct {
	name   string
	cp     *controlplane.ControlPlane
	url    string
	client *client.Client
}

func newPlayer(t *testing.T, plan Plan) *player {
	t.Helper()
	shape := plan.Shape
	p := &player{t: t, plan: plan, net: wire.New(plan.Seed), clocks: map[string]*world.Clock{}, down: map[string]bool{}, registered: map[string]string{}, swept: map[string]bool{}, canaries: newCanaries(), checking: make(chan struct{}, 1)}
	p.net.AddRule("*", "*", wire.Rule{Delay: shape.Delay})
	for i := range shape.ControlPlanes {
		p.clocks[hostControlPlane(i)] = &world.Clock{}
	}
	var ids []string
	for i := range shape.All() {
		ids = append(ids, clusterID(i))
		p.clocks[hostSyncer(i)] = &world.Clock{}
	}
	var err error
	if p.replay, err = invariants.NewReplay(p.promises()); err != nil {
		t.Fatal(err)
	}
	p.invite()
	p.remember()
	options := world.Options{
		Clusters: ids, Wire: p.net, Names: []string{"canary", jobService, freeName(0)}, Unguarded: true, Now: p.clocks[hostControlPlane(0)].Now,
		Sim: func(c *oscarsim.Config) {
			c.Latency, c.ThrottleGETs, c.BreakConcurrent, c.RevivesBuckets = shape.Latency, shape.Ugly, shape.Ugly, shape.Revives
			c.Workload = &oscarsim.Workload{Seed: plan.Seed, Min: shortestRun, Max: 2 * time.Minute, Fails: 0.05}
			c.Nodes = []oscarsim.Node{{Name: "node", CPU: int64(shape.Slots) * 1000, Memory: 64 << 30}}
		},
		Middleware: func(next http.Handler) http.Handler { return p.watch(p.canaries.watch(next)) },
		Etcd:       p.quota, OriginStorage: shape.Origin,
		Store: func(c *store.Config) {
			c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(p.checkFirst))
		},
		ControlPlane: func(c *controlplane.Config) {
			c.LostAfter, c.Witness = 0, p.witness(hostControlPlane(0))
			c.EndpointNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} // those of the wire
			p.retention(c)
			shape.forgets(c)
			shape.limits(c)
		},
		Syncer: func(c *syncer.Config) {
			c.Resync, c.SessionTTL, c.LateWindow, c.RetryPause, c.Jobs = 0, 0, 0, 0, jobs.Limits{}
			c.Now = p.clocks["syncer-"+c.ClusterID].Now
			p.accept(c)
			p.exchanges(c)
			p.seesSecrets(c)
		},
	}
	p.knowIssuer(&options)
	p.w = world.New(t, options)
	for i := range shape.ControlPlanes {
		name := hostControlPlane(i)
		pl := &plane{name: name}
		if i == 0 {
			pl.cp, pl.url, pl.client = p.w.CP, p.w.API, p.w.Client
		} else {
			p.start(pl)
		}
		p.planes = append(p.planes, pl)
	}
	api := func() *client.Client { return p.planes[rand.IntN(len(p.planes))].client }
	p.operations = linear.NewHistory(plan.Seed, shape.Names, ids[:shape.Clusters])
	p.histories = []*linear.History{p.operations}
	p.users = newUsers(api, ids)
	p.users.lost, p.users.keepsRequest = p.lost, shape.keepsRequest()
	p.calm, p.objects = newCalm(shape), newObjects()
	p.observer = newObserver(p.w, p.calm, t.Errorf)
	p.observer.restores = plan.Restores()
	p.foreign = &foreign{disturbed: p.calm.disturbed, fail: t.Errorf, log: t.Logf}
	if err = p.users.workers(t.Context(), shape.delegation()); err != nil {
		t.Fatalf("the service for jobs: %v", err)
	}
	p.began = time.Now()
	return p
}

// promises are what is checked at every revision.
func (p *player) promises() invariants.Options {
	return invariants.Options{Fenced: true}
}

// start starts a control plane.
func (p *player) start(pl *plane) {
	pl.cp = p.w.StartControlPlane(pl.name, func(c *controlplane.Config) {
		c.Now, c.Witness, c.Restored = p.clocks[pl.name].Now, p.witness(pl.name), p.told
	})
	if url := p.w.Serve(pl.cp); pl.client == nil { // its address stays
		pl.url, pl.client = url, p.w.ClientOf(url)
	}
}

// until waits for a time of the plan.
func (p *player) until(at time.Duration) {
	if wait := at - time.Since(p.began); wait > 0 {
		<-time.After(wait)
	}
}

// client makes the steps of one client.
func (p *player) client(ctx context.Context, number int) {
	rng := rand.New(rand.NewPCG(p.plan.Seed, uint64(1+number)))
	api := func() *client.Client { return p.planes[rng.IntN(len(p.planes))].client }
	var asker *linear.Caller
	var of *linear.History
	for _, s := range p.plan.Steps {
		if s.Client != number || s.Fault != nil || s.Local != nil {
			continue
		}
		p.until(s.At)
		switch {
		case s.Ask != nil:
			if now := p.current(); now != of {
				asker, of = now.Caller(number, api), now
			}
			asker.Do(ctx, *s.Ask)
		case s.Free != nil:
			p.users.free(ctx, *s.Free)
		case s.Job != nil:
			p.users.job(ctx, *s.Job)
		case s.Member != nil:
			p.member(ctx, *s.Member)
		case s.Deed != nil:
			p.deed(ctx, *s.Deed)
		}
	}
}

// faults breaks what the plan says, and mends each fault after its time.
func (p *player) faults(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	for _, s := range p.plan.Steps {
		if s.Fault == nil {
			continue
		}
		p.until(s.At)
		group.Go(func() {
			if !p.comes(ctx, *s.Fault) {
				return
			}
			defer p.calm.begins(*s.Fault)()
			mend := p.begin(ctx, *s.Fault)
			if mend == nil {
				return
			}
			select {
			case <-time.After(s.Fault.For):
			case <-ctx.Done():
			}
			mend()
		})
	}
}

// comes waits for what a fault comes after; false when that does not happen.
func (p *player) comes(ctx context.Context, f Fault) bool {
	var awaited []oscarsim.Op
	if f.After != "" {
		awaited = append(awaited, f.After)
	}
	if f.Read {
		awaited = append(awaited, oscarsim.OpGet)
	}
	for _, op := range awaited {
		select {
		case <-p.clusterOf(f.On).Sim.Next(op):
		case <-time.After(localWait):
			return false
		case <-ctx.Done():
			return false
		}
	}
	if f.Read {
		// OSCAR's answer takes one way, and so does the question to etcd.
		<-time.After(2 * (p.plan.Shape.Delay + wireDelay))
	}
	return true
}

// shortestRun is how long a Job runs at least.
const shortestRun = time.Second

// wireDelay is what a world adds to the delay of a plan.
const wireDelay = 200 * time.Microsecond

// take marks a host as down; false when it is so already.
func (p *player) take(host string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down[host] {
		return false
	}
	p.down[host] = true
	return true
}

func (p *player) give(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.down, host)
}

// begin begins a fault, and gives what ends it; nil when nothing is to be ended.
func (p *player) begin(ctx context.Context, f Fault) (mend func()) {
	switch f.Kind {
	case faultKill, faultFreeze:
		if !p.take(f.On) {
			return nil
		}
		end := p.stop(f)
		return func() { end(); p.give(f.On) }
	case faultCut:
		return p.net.Cut(f.On, f.To)
	case faultDeaf:
		return p.net.AddRule(f.On, f.To, wire.Rule{Cut: true})
	case faultDelay:
		return p.net.AddRule(f.On, f.To, wire.Rule{Delay: f.Amount / 2, Jitter: f.Amount})
	case faultLag:
		return p.net.AddRule(f.On, f.To, wire.Rule{Delay: f.Amount})
	case faultBreak:
		return p.net.AddRule(f.On, f.To, wire.Rule{Break: f.Probability})
	case faultHang:
		return p.net.AddRule(f.On, f.To, wire.Rule{Hang: f.Probability, Times: 3})
	case faultClock:
		return p.wrongClock(f)
	case faultOSCAR:
		sim := p.clusterOf(f.On).Sim
		if err := sim.SetFault(oscarsim.Fault{Op: f.Op, Fault: f.What, Count: f.Count, Delay: f.Amount}); err != nil {
			p.t.Error(err)
		}
		return func() {
			if err := sim.SetFault(oscarsim.Fault{Op: f.Op}); err != nil {
				p.t.Error(err)
			}
		}
	case faultIssuer:
		p.people.issuer.Answer(http.StatusServiceUnavailable)
		return func() { p.people.issuer.Answer(0) }
	case faultLeaderless:
		return p.leaderless(ctx, f)
	case faultFull:
		return p.fill(ctx, f)
	case faultBackup:
		p.backUp(ctx)
	case faultRestore:
		p.goBack(ctx, f)
	case faultDrift:
		p.drift(ctx, p.clusterOf(f.On))
	case faultCompact:
		p.compact(ctx)
	}
	return nil
}

// wrongClock lets a program run with a wrong clock. It is killed for that, and killed again to end it:
// within a process time is monotonic, also when the machine's clock is set.
func (p *player) wrongClock(f Fault) (mend func()) {
	if !p.take(f.On) {
		return nil
	}
	restart := func(by time.Duration) {
		start := p.stop(f)
		p.clocks[f.On].Advance(by)
		start()
	}
	restart(f.Amount)
	return func() {
		restart(-f.Amount)
		p.give(f.On)
	}
}

// stop kills or freezes a host, and gives what starts it or thaws it.
func (p *player) stop(f Fault) (start func()) {
	if f.Kind == faultFreeze {
		host := p.net.Host(f.On)
		host.Freeze()
		return host.Thaw
	}
	if f.On == world.HostEtcd {
		p.w.KillEtcd()
		return p.w.StartEtcd
	}
	for _, pl := range p.planes {
		if pl.name == f.On {
			p.w.KillControlPlane(pl.cp)
			return func() { p.start(pl) }
		}
	}
	for i := range p.plan.Shape.All() {
		c := p.w.Cluster(clusterID(i))
		switch f.On {
		case hostSyncer(i):
			c.Kill()
			if f.For%4 == 3 { // for one in four: another machine takes its place
				c.LoseDisk()
			}
			return func() { c.Start() }
		case hostOSCAR(i):
			c.OscarDies()
			return c.OscarLives
		}
	}
	panic(fmt.Sprintf("no host %s", f.On))
}

// clusterOf is the one whose OSCAR or syncer a host is.
func (p *player) clusterOf(host string) *world.Cluster {
	for i := range p.plan.Shape.All() {
		if hostOSCAR(i) == host || hostSyncer(i) == host {
			return p.w.Cluster(clusterID(i))
		}
	}
	panic(fmt.Sprintf("no cluster has %s", host))
}

// drift deletes a service of ours behind the federation's back.
func (p *player) drift(ctx context.Context, c *world.Cluster) {
	for _, name := range c.Sim.Services() {
		if view, ok := c.Sim.Service(name); ok && view.Annotations[oscar.AnnotationUID] != "" {
			p.objects.forget(c, name)
			p.mu.Lock()
			p.drifted = p.drifted || name == jobService
			p.mu.Unlock()
			_, _, _ = p.w.TryDirectly(ctx, http.MethodDelete, c.URL+"/system/services/"+name, nil) // OSCAR may be away
			return
		}
	}
}
