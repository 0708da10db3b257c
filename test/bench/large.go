package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// large fills a federation of five thousand clusters with a hundred thousand replicas in
// federations of long-tailed sizes, all of one owner, and measures what scale measures, and how the API
// answers while all syncers return. It is a run of its own, of half an hour.
func large(ctx context.Context, o options, out *report) (err error) {
	w, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	clusters, replicas := o.scaled(5000, 130), o.scaled(100_000, 1000)
	out.sayf("starting %d clusters", clusters)
	if err := w.grow(ctx, clusters, 0); err != nil {
		return err
	}
	empty, err := w.server.usage()
	if err != nil {
		return err
	}
	out.grows("replicas", "replicas", "MiB of the control plane with etcd", clusters, float64(empty.anon)/(1<<20))
	all := population(clusters, replicas)
	out.sayf("filling %d replicas in %d federations", replicas, len(all))
	made, filled, err := w.fillWith(ctx, all, o.fill, out)
	if err != nil {
		return err
	}
	full, err := w.idle(ctx, 20*time.Second)
	if err != nil {
		return err
	}
	rows := [][]string{
		{"filling, eight creates at once", seconds(filled), fmt.Sprintf("%.0f replicas a second", float64(made)/filled.Seconds()), "-"},
		{"memory of the control plane with etcd", mib(full.server.anon), fmt.Sprintf("%s more for a replica", kib((full.server.anon-empty.anon)/int64(made))), "-"},
		{"its CPU when idle", percent(full.serverShare), "", "-"},
	}
	back, err := w.returnOfAll(ctx, out, "crowd-0")
	if err != nil {
		return err
	}
	rows = append(rows, back...)
	start, err := w.coldStart(ctx, out)
	if err != nil {
		return err
	}
	out.heading(fmt.Sprintf("%d replicas of %d federations on %d clusters", made, len(all), clusters))
	out.table([]string{"what", "figure", "floor", "ratio"}, append(rows, start...))
	return nil
}

// fillWith creates federations until all are there or the time is over, and returns how many
// replicas there are and how long that took.
func (w *bench) fillWith(ctx context.Context, all []placed, limit time.Duration, out *report) (int, time.Duration, error) {
	w.eyes.forget(false)
	total := 0
	for _, p := range all {
		total += p.n
	}
	began, made, next := time.Now(), 0, total/8
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, p := range all {
		if time.Since(began) > limit || gctx.Err() != nil {
			break
		}
		made += p.n
		g.Go(func() error {
			_, err := w.create(gctx, fmt.Sprintf("crowd-%d", i), p.first, p.n)
			return err
		})
		if made >= next {
			next *= 2
			u, err := w.server.usage()
			if err != nil {
				return made, 0, errors.Join(err, g.Wait())
			}
			out.grows("replicas", "replicas", "MiB of the control plane with etcd", made, float64(u.anon)/(1<<20))
			out.sayf("%d replicas after %s: %s", made, time.Since(began).Round(time.Second), mib(u.anon))
		}
	}
	err := g.Wait()
	return made, time.Since(began), err
}

// meanwhile calls the API beside something else. Its figures are there once stop has returned.
type meanwhile struct {
	stop func() error
	// took are the times of reads.
	took samples
	// created is how many creates were asked for, and accepted how many were.
	created, accepted int
}

func (m *meanwhile) rows() [][]string {
	return [][]string{
		{"meanwhile: GET of one service", m.took.both(), fmt.Sprintf("%d calls", len(m.took)), "-"},
		{"meanwhile: creates accepted", fmt.Sprint(m.accepted), fmt.Sprintf("of %d", m.created), "-"},
	}
}

// callWhile reads a service again and again, fifty times a second at most, and asks for a create
// each second without waiting for its outcome.
func (w *bench) callWhile(ctx context.Context, service string) *meanwhile {
	ctx, cancel := context.WithCancel(ctx)
	m, ended := &meanwhile{}, make(chan error, 1)
	m.stop = func() error { cancel(); return <-ended }
	go func() {
		read, create := time.NewTicker(20*time.Millisecond), time.NewTicker(time.Second)
		defer read.Stop()
		defer create.Stop()
		for {
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-read.C:
				began := time.Now()
				if _, err := w.call(ctx, http.MethodGet, "/system/services/"+service, nil, http.StatusOK); err != nil && ctx.Err() == nil {
					ended <- err
					return
				}
				m.took = append(m.took, time.Since(began))
			case <-create.C:
				m.created++
				name := fmt.Sprintf("late-%d", m.created)
				if _, err := w.call(ctx, http.MethodPost, "/system/services?wait=0s", definition(name, 0, 1), http.StatusAccepted); err == nil {
					m.accepted++
				}
			}
		}
	}()
	return m
}
