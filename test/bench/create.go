package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// bench is a server, a fleet and an observer.
type bench struct {
	*server
	fleet *remote
	eyes  *observer
	// clusters that are started.
	clusters int
	// jobsRun says that the Jobs of clusters to come run by themselves, for an instant,
	// on nodes that are never full.
	jobsRun bool
	// full says that clusters to come have no room for a job.
	full bool
}

func newBench(ctx context.Context, o options) (_ *bench, err error) {
	w := &bench{}
	if w.server, err = newServer(ctx, o); err != nil {
		return nil, err
	}
	if w.fleet, err = newRemote(o.yields); err != nil {
		return nil, errors.Join(err, w.server.stop())
	}
	if w.eyes, err = newObserver(ctx, w.endpoint()); err != nil {
		return nil, errors.Join(err, w.fleet.close(), w.server.stop())
	}
	return w, nil
}

func (w *bench) close() error {
	w.eyes.close()
	return errors.Join(w.fleet.close(), w.server.stop())
}

// grow starts clusters until there are n.
func (w *bench) grow(ctx context.Context, n int, latency time.Duration) error {
	if n <= w.clusters {
		return nil
	}
	w.eyes.forget(false)
	if err := w.register(ctx, w.clusters, n); err != nil {
		return err
	}
	if err := w.fleet.do("Start", FleetStart{
		Etcd: w.endpoint(), PasswordFile: w.passwordFile(), Issuer: w.users.provider.Issuer(), From: w.clusters, To: n, Latency: latency, JobsRun: w.jobsRun, Full: w.full,
	}); err != nil {
		return err
	}
	w.clusters = n
	_, err := w.eyes.settled(ctx, time.Second)
	return err
}

// measured is what creations of one size took, beside their floor.
type measured struct {
	connected, members, rounds int
	// transaction is A as a bare client sends it.
	transaction samples
	floor, real struct{ accepted, decided, applied samples }
	answered    samples
	// serverCPU and fleetCPU are what all creations together used, floorCPU what all
	// relays did, and took the time that the creations took.
	serverCPU, fleetCPU, floorCPU, took time.Duration
}

// creations measures creations over n members and their floor in turns.
func (w *bench) creations(ctx context.Context, n, rounds int) (*measured, error) {
	m := &measured{connected: w.clusters, members: n, rounds: rounds}
	var like *timeline
	// The first rounds warm up, and show what the relay is to do.
	const warm = 2
	bare := false
	defer func() {
		if bare {
			_ = w.fleet.do("StopBare", None{})
		}
	}()
	for round := -warm; round < rounds; round++ {
		t, err := w.creation(ctx, m, fmt.Sprintf("bench-%d-%d-%d", w.clusters, n, round+warm), n, round >= 0)
		if err != nil {
			return nil, err
		}
		if t.revisions != 2*n+3 {
			return nil, fmt.Errorf("a create over %d members cost %d revisions, not %d", n, t.revisions, 2*n+3)
		}
		if like == nil {
			like, bare = t, true
			if err := w.fleet.do("StartBare", BareStart{Etcd: w.endpoint(), To: n, Vote: t.vote, Report: t.report}); err != nil {
				return nil, err
			}
		}
		before, err := w.cpu()
		if err != nil {
			return nil, err
		}
		r, err := w.eyes.relay(ctx, like, n)
		if err != nil {
			return nil, err
		}
		after, err := w.cpu()
		if err != nil {
			return nil, err
		}
		if round < 0 {
			continue
		}
		m.floorCPU += after - before
		m.transaction = append(m.transaction, r.transaction)
		m.floor.accepted = append(m.floor.accepted, r.accepted)
		m.floor.decided = append(m.floor.decided, r.decided)
		m.floor.applied = append(m.floor.applied, r.applied)
	}
	return m, nil
}

// cpu is what the server and the fleet have used together.
func (w *bench) cpu() (time.Duration, error) {
	server, err := w.server.usage()
	if err != nil {
		return 0, err
	}
	fleet, err := w.fleet.usage()
	return server.cpu + fleet.cpu, err
}

// creation makes one federation, times it, and removes it.
func (w *bench) creation(ctx context.Context, m *measured, name string, n int, counts bool) (t *timeline, err error) {
	w.eyes.forget(true)
	if err := w.profiled(ctx, name, func() error {
		t, err = w.timedCreation(ctx, m, name, n, counts)
		return err
	}); err != nil {
		return nil, err
	}
	w.eyes.forget(false)
	if err := w.remove(ctx, name); err != nil {
		return nil, err
	}
	_, err = w.eyes.settled(ctx, 20*time.Millisecond)
	return t, err
}

// timedCreation makes one federation and times it.
func (w *bench) timedCreation(ctx context.Context, m *measured, name string, n int, counts bool) (*timeline, error) {
	server, err := w.server.usage()
	if err != nil {
		return nil, err
	}
	fleet, err := w.fleet.usage()
	if err != nil {
		return nil, err
	}
	sent, err := w.create(ctx, name, 0, n)
	if err != nil {
		return nil, err
	}
	answered := time.Since(sent)
	t, err := w.eyes.watchCreate(ctx)
	if err != nil {
		return nil, err
	}
	serverAfter, err := w.server.usage()
	if err != nil {
		return nil, err
	}
	fleetAfter, err := w.fleet.usage()
	if err != nil {
		return nil, err
	}
	if counts {
		m.real.accepted = append(m.real.accepted, t.accepted.Sub(sent))
		m.real.decided = append(m.real.decided, t.decided.Sub(sent))
		m.real.applied = append(m.real.applied, t.applied.Sub(sent))
		m.answered = append(m.answered, answered)
		m.serverCPU += serverAfter.cpu - server.cpu
		m.fleetCPU += fleetAfter.cpu - fleet.cpu
		m.took += answered
	}
	return t, nil
}

// creations prints times as p50 / p99, and what they cost.
func (r *report) creations(all []*measured) {
	var times, cost [][]string
	for _, m := range all {
		each := func(d time.Duration) string { return ms(d / time.Duration(m.rounds)) }
		size := []string{fmt.Sprint(m.connected), fmt.Sprint(m.members), fmt.Sprint(m.rounds)}
		times = append(times, append(size,
			m.floor.accepted.both(), m.real.accepted.both(), m.real.accepted.over(m.floor.accepted),
			m.floor.decided.both(), m.real.decided.both(), m.real.decided.over(m.floor.decided),
			m.floor.applied.both(), m.real.applied.both(), m.real.applied.over(m.floor.applied),
		))
		cost = append(cost, []string{
			size[0], size[1], m.transaction.both(), m.answered.both(),
			each(m.floorCPU), each(m.serverCPU), each(m.fleetCPU), ratio(m.serverCPU+m.fleetCPU, m.floorCPU),
			fmt.Sprintf("%.1f", (m.serverCPU+m.fleetCPU).Seconds()/m.took.Seconds()),
		})
	}
	r.table([]string{
		"connected", "members", "rounds", "accepted: floor", "accepted", "ratio",
		"decided: floor", "decided", "ratio", "applied: floor", "applied", "ratio",
	}, times)
	r.linef("")
	r.table([]string{
		"connected", "members", "A alone", "answered", "CPU: floor", "CPU: server", "CPU: fleet", "ratio", "CPUs that it got",
	}, cost)
}

// ladder measures creations over more and more members, with nobody else there.
func ladder(ctx context.Context, o options, out *report) (err error) {
	w, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var all []*measured
	for _, step := range []struct{ members, rounds int }{{1, 200}, {2, 200}, {10, 100}, {50, 60}, {120, 30}} {
		if err := w.grow(ctx, step.members, 0); err != nil {
			return err
		}
		m, err := w.creations(ctx, step.members, o.repeated(step.rounds))
		if err != nil {
			return err
		}
		cpu := (m.serverCPU + m.fleetCPU) / time.Duration(m.rounds)
		out.grows("members", "members", "ms of CPU of a create", step.members, float64(cpu)/1e6)
		out.sayf("%d members: applied %s, floor %s", step.members, m.real.applied.both(), m.floor.applied.both())
		all = append(all, m)
	}
	out.heading("A create, by the number of its members")
	out.creations(all)
	return nil
}

// connected measures creations beside more and more syncers that are connected
// and idle, and what those cost the server.
func connected(ctx context.Context, o options, out *report) (err error) {
	w, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var all []*measured
	var cost [][]string
	var first usage
	for _, n := range []int{10, 100, 1000, 2000} {
		n = o.scaled(n, 10)
		if err := w.grow(ctx, n, 0); err != nil {
			return err
		}
		idle, err := w.idle(ctx, 20*time.Second)
		if err != nil {
			return err
		}
		if len(cost) == 0 {
			first = idle.server
		}
		out.grows("clusters", "clusters", "MiB of the control plane with etcd", n, float64(idle.server.anon)/(1<<20))
		each := "-"
		if n > 10 {
			each = kib((idle.server.anon - first.anon) / int64(n-10))
		}
		cost = append(cost, []string{
			fmt.Sprint(n), mib(idle.server.anon), each, percent(idle.serverShare),
			mib(idle.fleet.anon), percent(idle.fleetShare / float64(n)),
		})
		for _, members := range []int{10, 50} {
			if members > n {
				continue
			}
			m, err := w.creations(ctx, members, o.repeated(30))
			if err != nil {
				return err
			}
			out.sayf("%d connected, %d members: applied %s, floor %s", n, members, m.real.applied.both(), m.floor.applied.both())
			all = append(all, m)
		}
	}
	out.heading("A create, by the number of connected syncers")
	out.creations(all)
	out.heading("What connected syncers cost while nothing is asked")
	out.table([]string{"connected", "server's memory", "more for each", "server's CPU", "fleet's memory", "fleet's CPU for each"}, cost)
	return nil
}

// idled is what processes used while nothing was asked.
type idled struct {
	server, fleet           usage
	serverShare, fleetShare float64
}

func (w *bench) idle(ctx context.Context, d time.Duration) (idled, error) {
	var i idled
	server, err := w.server.usage()
	if err != nil {
		return i, err
	}
	fleet, err := w.fleet.usage()
	if err != nil {
		return i, err
	}
	if err := wait(ctx, d); err != nil {
		return i, err
	}
	if i.server, err = w.server.usage(); err != nil {
		return i, err
	}
	if i.fleet, err = w.fleet.usage(); err != nil {
		return i, err
	}
	i.serverShare, i.fleetShare = i.server.share(server), i.fleet.share(fleet)
	return i, nil
}

// wait lets time pass: for a figure of an idle system that is the work.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
