package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// scale fills a federation of a thousand clusters with twenty thousand replicas, and measures what
// that takes, a cold start over it, and the return of all syncers at once.
func scale(ctx context.Context, o options, out *report) error {
	const members = 20
	clusters := o.scaled(1000, members)
	all := make([]placed, o.scaled(1000, 1))
	for i := range all {
		all[i] = placed{first: i % (clusters / members) * members, n: members}
	}
	return crowd(ctx, o, out, clusters, 4, all)
}

// large is scale for five thousand clusters and a hundred thousand replicas, in federations of
// long-tailed sizes, of a thousand users. It is a run of its own, of 12 minutes and more.
func large(ctx context.Context, o options, out *report) error {
	clusters := o.scaled(5000, 130)
	return crowd(ctx, o, out, clusters, 8, population(clusters, o.scaled(100_000, 1000)))
}

// crowd fills clusters with federations, and measures what that takes, a cold start over them, and
// the return of all syncers at once.
func crowd(ctx context.Context, o options, out *report, clusters, atOnce int, all []placed) (err error) {
	o.yields = true
	w, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	out.sayf("starting %d clusters", clusters)
	if err := w.grow(ctx, clusters, 0); err != nil {
		return err
	}
	empty, err := w.server.usage()
	if err != nil {
		return err
	}
	out.sayf("filling them with %d federations", len(all))
	var filled filling
	if err := w.profiled(ctx, "fill", func() error {
		filled, err = w.fill(ctx, all, atOnce, o.fill, out)
		return err
	}); err != nil {
		return err
	}
	// The last creations are still reported on: what they change of the reports of whole clusters at
	// the next full compare, which is within a minute.
	if _, err := w.eyes.settled(ctx, 65*time.Second); err != nil {
		return err
	}
	var full idled
	if err := w.profiled(ctx, "idle", func() error {
		full, err = w.idle(ctx, time.Minute)
		return err
	}); err != nil {
		return err
	}
	var kept int
	if err := w.fleet.Call("Fleet.Kept", None{}, &kept); err != nil {
		return err
	}
	rows := [][]string{
		{fmt.Sprintf("filling, %d creates at once", atOnce), seconds(filled.took), fmt.Sprintf("%.0f replicas a second", float64(filled.replicas)/filled.took.Seconds()), "-"},
		{"memory of the control plane with etcd", mib(full.server.anon), fmt.Sprintf("%s more for a replica", kib((full.server.anon-empty.anon)/int64(filled.replicas))), "-"},
		{"its CPU when idle", percent(full.serverShare), "", "-"},
		{"refresh tokens that syncers keep", strconv.Itoa(kept), fmt.Sprintf("%d federations of %d users", filled.federations, crowdUsers), "-"},
	}
	back, err := w.returnOfAll(ctx, out)
	if err != nil {
		return err
	}
	start, err := w.coldStart(ctx, out)
	if err != nil {
		return err
	}
	out.heading(fmt.Sprintf("%d replicas on %d clusters", filled.replicas, clusters))
	out.table([]string{"what", "figure", "floor", "ratio"}, append(append(rows, back...), start...))
	return nil
}

// crowdName names the i-th federation of a crowd.
func crowdName(i int) string { return fmt.Sprintf("crowd-%d", i) }

// filling is what was created, and how long that took.
type filling struct {
	federations, replicas int
	took                  time.Duration
}

// fill creates federations until all are there or the time is over.
func (w *bench) fill(ctx context.Context, all []placed, atOnce int, limit time.Duration, out *report) (made filling, err error) {
	w.eyes.forget(false)
	total := 0
	for _, p := range all {
		total += p.n
	}
	began, next := time.Now(), total/8
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, p := range all {
		if time.Since(began) > limit || gctx.Err() != nil {
			break
		}
		made.federations++
		made.replicas += p.n
		g.Go(func() error {
			owner := i % crowdUsers
			body := withRefreshToken(definition(crowdName(i), p.first, p.n), w.users.refreshToken(owner))
			// Of thousands, on a machine that is full, one may not be done when its client has waited for as
			// long as it may: it goes on.
			_, err := w.callAs(gctx, w.users.as(owner), http.MethodPost, "/system/services?wait=2m", body, http.StatusCreated, http.StatusGatewayTimeout)
			return err
		})
		if made.replicas >= next {
			next *= 2
			u, err := w.server.usage()
			if err != nil {
				return made, errors.Join(err, g.Wait())
			}
			out.grows("replicas", "replicas", "MiB of the control plane with etcd", made.replicas, float64(u.anon)/(1<<20))
			out.sayf("%d replicas after %s: %s", made.replicas, time.Since(began).Round(time.Second), mib(u.anon))
		}
	}
	err = g.Wait()
	made.took = time.Since(began)
	return made, err
}

// returnOfAll cuts every connection for longer than the sessions live, and
// measures from its end until every syncer has a session, has listed etcd and its OSCAR,
// and nothing is written any more. Meanwhile it reads a service and asks for creates.
func (w *bench) returnOfAll(ctx context.Context, out *report) ([][]string, error) {
	out.sayf("cutting %d syncers off", w.clusters)
	if err := w.fleet.do("Cut", true); err != nil {
		return nil, err
	}
	if err := w.fleet.do("Lost", None{}); err != nil {
		return nil, err
	}
	if err := w.eyes.sessionsEnded(ctx); err != nil {
		return nil, err
	}
	if _, err := w.eyes.settled(ctx, time.Second); err != nil {
		return nil, err
	}
	lists := map[int]int{}
	if err := w.fleet.Call("Fleet.Lists", None{}, &lists); err != nil {
		return nil, err
	}
	rev, _ := w.eyes.newest()
	server, err := w.server.usage()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := w.fleet.do("Cut", false); err != nil {
		return nil, err
	}
	calls := w.callWhile(ctx, crowdName(0))
	err = w.profiled(ctx, "return", func() error { return w.fleet.do("Compared", lists) })
	compared := time.Since(began)
	if err = errors.Join(err, calls.stop()); err != nil {
		return nil, err
	}
	last, err := w.eyes.settled(ctx, 3*time.Second)
	if err != nil {
		return nil, err
	}
	after, err := w.server.usage()
	if err != nil {
		return nil, err
	}
	now, _ := w.eyes.newest()
	// The floor: as many bare clients beside them.
	var floor time.Duration
	if err := w.fleet.Call("Fleet.BareReconnect", BareStart{Etcd: w.endpoint(), To: w.clusters}, &floor); err != nil {
		return nil, err
	}
	return append(calls.rows(), [][]string{
		{"all syncers return: every one has compared", seconds(compared), seconds(floor) + " (as many bare clients)", ratio(compared, floor)},
		{"all syncers return: the last write", seconds(last.Sub(began)), fmt.Sprintf("%d revisions", now-rev), "-"},
		{"all syncers return: the control plane's CPU", seconds(after.cpu - server.cpu), "", "-"},
	}...), nil
}

// coldStart kills the control plane and starts it over the same data. Its floor is over a copy:
// the first start after a kill does more than a second one.
func (w *bench) coldStart(ctx context.Context, out *report) ([][]string, error) {
	out.sayf("killing the control plane")
	w.server.kill()
	copied, err := os.MkdirTemp("", "oscarfed-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(copied) }()
	// Beside it are only a lock and a socket.
	if err := os.CopyFS(filepath.Join(copied, "member"), os.DirFS(filepath.Join(w.data(), "member"))); err != nil {
		return nil, err
	}
	floor, err := w.bareStart(ctx, copied)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	took, err := w.server.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.fleet.do("Connected", w.clusters); err != nil {
		return nil, err
	}
	reconnected := time.Since(began)
	if err := wait(ctx, 5*time.Second); err != nil {
		return nil, err
	}
	u, err := w.server.usage()
	if err != nil {
		return nil, err
	}
	return [][]string{
		{"cold start: until the API serves", seconds(took), seconds(floor.took) + " (etcd alone, and one list of " + mib(floor.bytes) + ")", ratio(took, floor.took)},
		{"cold start: until every syncer follows again", seconds(reconnected), "", "-"},
		{"memory after the cold start", mib(u.anon), "", "-"},
	}, nil
}
