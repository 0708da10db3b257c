package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store/record"
)

const (
	queuedClusters = 20
	// queuedQuota is that of etcd: a million jobs with small events take some 2 GiB.
	queuedQuota = 8 << 30
	// queuedEvent is the size of an event in bytes.
	queuedEvent = 16
	// queuedReads is how often each thing is read.
	queuedReads = 200
	// queuedRoom is how many jobs each cluster takes in the end.
	queuedRoom = 50
)

// queued measures a control plane in which up to a million jobs wait for clusters without room.
func queued(ctx context.Context, o options, out *report) (err error) {
	o.inside = true
	w, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.full, w.quota = true, queuedQuota
	if err := w.grow(ctx, queuedClusters, 0); err != nil {
		return err
	}
	all := make([]placed, o.scaled(3000, queuedClusters))
	for i := range all {
		all[i] = placed{first: i % queuedClusters, n: 1}
	}
	out.sayf("creating %d federations", len(all))
	if _, err := w.fill(ctx, all, 8, time.Hour, &report{w: out.w, progress: out.progress}); err != nil {
		return err
	}
	template, _, err := w.submit(ctx, crowdName(0), queuedEvent)
	if err != nil {
		return err
	}
	s, err := w.newSeeder(ctx)
	if err != nil {
		return err
	}
	idleFor := max(time.Duration(o.size*float64(20*time.Second)), 5*time.Second)
	most := o.scaled(1_000_000, 8000)
	var runs []*queuedRun
	for _, n := range []int{0, most / 8, most / 4, most / 2, most} {
		run, err := w.withQueued(ctx, s, n, template, idleFor, out)
		if err != nil {
			return fmt.Errorf("%d queued jobs: %w", n, err)
		}
		runs = append(runs, run)
		out.sayf("%d queued jobs: %s", n, strings.Join(run.row(runs[0]), ", "))
	}
	placing, err := w.placing(ctx, most)
	if err != nil {
		return err
	}
	out.queued(len(all), runs, placing)
	return nil
}

// queuedRun is a control plane with a number of queued jobs.
type queuedRun struct {
	n int
	// bare is the live heap of etcd alone, live that of the control plane with etcd, and resident the
	// memory of that process.
	bare, live, resident int64
	// floor is how long etcd alone takes to start and to list all, and start how long the control
	// plane takes until its API serves, with startCPU.
	floor, start, startCPU time.Duration
	// idle is the part of a CPU that it uses while nothing comes.
	idle float64
	// submitting is what all of submits took.
	submits    samples
	submitting scanCost
	// reads are of the API, and get one key of etcd's.
	reads, get samples
}

// withQueued fills the queues up to n jobs while the control plane is down, starts it, and measures
// it.
func (w *bench) withQueued(ctx context.Context, s *seeder, n int, template string, idleFor time.Duration, out *report) (*queuedRun, error) {
	r := &queuedRun{n: n}
	out.sayf("filling the queues up to %d jobs", n)
	if err := w.fleet.do("Cut", true); err != nil {
		return nil, err
	}
	w.eyes.close()
	w.kill()
	if err := w.bareEtcd(ctx, w.data(), func(client *clientv3.Client, _ string) error { return s.until(ctx, client, n) }); err != nil {
		return nil, err
	}
	floor, err := w.bareStart(ctx, w.data())
	if err != nil {
		return nil, err
	}
	r.floor, r.bare = floor.took, floor.live
	name := fmt.Sprintf("queued-%d", n)
	if r.start, err = w.startProfiled(ctx, name+"-start"); err != nil {
		return nil, err
	}
	started, err := w.server.usage()
	if err != nil {
		return nil, err
	}
	r.startCPU = started.cpu
	if w.eyes, err = newObserver(ctx, w.endpoint()); err != nil {
		return nil, err
	}
	w.eyes.forget(false)
	if err := errors.Join(w.fleet.do("Cut", false), w.fleet.do("Connected", w.clusters)); err != nil {
		return nil, err
	}
	if _, err := w.eyes.settled(ctx, 2*time.Second); err != nil {
		return nil, err
	}
	if err := w.profiled(ctx, name+"-idle", func() error {
		idle, err := w.idle(ctx, idleFor)
		r.idle = idle.serverShare
		return err
	}); err != nil {
		return nil, err
	}
	if err := w.profiled(ctx, name, func() error {
		return errors.Join(w.submitQueued(ctx, r), w.readQueued(ctx, r, template))
	}); err != nil {
		return nil, err
	}
	if r.live, err = liveIn(ctx, w.inside); err != nil {
		return nil, err
	}
	u, err := w.server.usage()
	r.resident = u.anon
	return r, err
}

// submitQueued sends jobs one after the other, which wait behind the others.
func (w *bench) submitQueued(ctx context.Context, r *queuedRun) (err error) {
	r.submitting, err = w.scanCost(ctx, func() error {
		for i := range queuedReads {
			began := time.Now()
			if _, _, err := w.submit(ctx, crowdName(i%queuedClusters), queuedEvent); err != nil {
				return err
			}
			r.submits = append(r.submits, time.Since(began))
		}
		return nil
	})
	return err
}

// readQueued reads the API, and a key of etcd's beside it.
func (w *bench) readQueued(ctx context.Context, r *queuedRun, template string) error {
	paths := []string{
		"/system/services/" + crowdName(0), "/system/jobs?limit=100", "/system/jobs/" + template, "/system/federations?limit=100",
		"/system/jobs?limit=100&service=" + crowdName(1),
	}
	for i := range queuedReads {
		for range 2 {
			began := time.Now()
			if _, err := w.call(ctx, http.MethodGet, paths[i%len(paths)], nil, http.StatusOK); err != nil {
				return err
			}
			r.reads = append(r.reads, time.Since(began))
		}
		began := time.Now()
		if _, err := w.eyes.client.Get(ctx, record.MetaKey); err != nil {
			return err
		}
		r.get = append(r.get, time.Since(began))
	}
	return nil
}

// scanned are the scans of the queues so far.
type scanned struct{ count, seconds, classes float64 }

// scans reads the metrics of the control plane.
func (w *bench) scans(ctx context.Context) (out scanned, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.metrics+"/metrics", nil)
	if err != nil {
		return out, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		to := map[string]*float64{
			"oscarfed_job_round_seconds_count": &out.count, "oscarfed_job_round_seconds_sum": &out.seconds, "oscarfed_job_round_classes_total": &out.classes,
		}[name]
		if to == nil {
			continue
		}
		if *to, err = strconv.ParseFloat(value, 64); err != nil {
			return out, err
		}
	}
	return out, lines.Err()
}

// scanCost is what the control plane used for something, all of its CPU, and for its scans.
func (w *bench) scanCost(ctx context.Context, fn func() error) (c scanCost, err error) {
	before, err := w.scans(ctx)
	if err != nil {
		return c, err
	}
	was, err := w.server.usage()
	if err != nil {
		return c, err
	}
	if err := fn(); err != nil {
		return c, err
	}
	now, err := w.server.usage()
	if err != nil {
		return c, err
	}
	after, err := w.scans(ctx)
	c = scanCost{cpu: now.cpu - was.cpu, scans: after.count - before.count}
	if c.scans > 0 {
		c.classes = (after.classes - before.classes) / c.scans
		c.took = time.Duration((after.seconds - before.seconds) / c.scans * float64(time.Second))
	}
	return c, err
}

// scanCost is a number of scans, how many classes each looked at, and how long it took, and the CPU
// of the control plane in their time.
type scanCost struct {
	scans, classes float64
	took, cpu      time.Duration
}

// placing makes room for some of the jobs, and returns what it takes until they are assigned.
func (w *bench) placing(ctx context.Context, n int) ([]string, error) {
	w.eyes.forget(true)
	jobs := map[string]bool{}
	cost, err := w.scanCost(ctx, func() error {
		if err := w.fleet.do("Room", queuedRoom); err != nil {
			return err
		}
		return w.profiled(ctx, "queued-placing", func() error {
			return w.eyes.follow(ctx, func(e seen) bool {
				ref := record.ParseKey(e.key)
				if ref.Kind == record.KindAssignment && !e.deleted {
					jobs[ref.Name] = true
				}
				return len(jobs) == queuedRoom*queuedClusters
			})
		})
	})
	if err != nil {
		return nil, err
	}
	return []string{
		fmt.Sprint(len(jobs)), fmt.Sprint(n), ms(cost.cpu / time.Duration(len(jobs))),
		fmt.Sprintf("%.0f", cost.scans), fmt.Sprintf("%.0f", cost.classes), ms(cost.took),
	}, nil
}

// each is how many bytes the control plane has for each job, besides etcd's.
func (r *queuedRun) each(empty *queuedRun) int64 {
	if r.n == 0 {
		return 0
	}
	return (r.live - r.bare - (empty.live - empty.bare)) / int64(r.n)
}

// submitCPU is the time of the server's CPU for one more job.
func (r *queuedRun) submitCPU() time.Duration { return r.submitting.cpu / queuedReads }

func (r *queuedRun) row(empty *queuedRun) []string {
	return []string{
		fmt.Sprint(r.n), mib(r.bare), mib(r.live), fmt.Sprintf("%d B", r.each(empty)), mib(r.resident),
		seconds(r.floor), seconds(r.start), ratio(r.start, r.floor), seconds(r.startCPU), percent(r.idle),
		fmt.Sprintf("%.0f", r.submitting.classes), ms(r.submitting.took), r.submits.both(), ms(r.submitCPU()), r.get.both(), r.reads.both(),
	}
}

// queued prints the figures of control planes with queued jobs.
func (r *report) queued(federations int, runs []*queuedRun, placing []string) {
	r.heading(fmt.Sprintf("Jobs that wait, of %d federations on %d clusters without room", federations, queuedClusters))
	var rows [][]string
	for _, run := range runs {
		rows = append(rows, run.row(runs[0]))
		if run.n == 0 {
			continue
		}
		r.grows("queued-memory", "queued jobs", "MiB of the control plane besides etcd", run.n, float64(run.live-run.bare)/(1<<20))
		r.grows("queued-start", "queued jobs", "s of CPU of a cold start", run.n, run.startCPU.Seconds())
		r.grows("queued-idle", "queued jobs", "percent of a CPU when idle", run.n, run.idle*100)
		r.grows("queued-submit", "queued jobs", "ms of CPU of one more job", run.n, float64(run.submitCPU())/1e6)
		r.grows("queued-reads", "queued jobs", "ms of a read, p99", run.n, float64(run.reads.p(99))/1e6)
	}
	r.table([]string{
		"queued", "live heap: etcd alone", "control plane with etcd", "besides etcd, for each", "memory of the process",
		"cold start: floor", "cold start", "ratio", "its CPU", "CPU when idle", "classes a scan", "a scan", "POST of one more", "CPU of one more", "reads: floor", "reads of the API",
	}, rows)
	r.linef("")
	r.table([]string{"room for", "of", "CPU for each", "scans", "classes a scan", "a scan"}, [][]string{placing})
}
