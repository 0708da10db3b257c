package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

const (
	// jobClusters run the jobs of one federation, which jobSenders send at the same time.
	jobClusters = 10
	jobSenders  = 64
	// jobEvent is the size of an event in bytes: that of one object of MinIO's.
	jobEvent = 1 << 10
	// bareWriters replay transactions at the same time: etcd puts what comes together
	// into one write of its log.
	bareWriters = 16
)

// aimedJobs is how many jobs a second are aimed at. Half of that many are sent at an even pace, too.
const aimedJobs = 1000

// jobs measures how many jobs a second come from their acceptance to an OSCAR, and how
// long one takes from the POST to the control plane to the POST to its OSCAR. Their
// floor is the same transactions by bare clients.
func jobs(ctx context.Context, o options, out *report) (err error) {
	w, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.jobsRun = true
	if err := w.grow(ctx, jobClusters, 0); err != nil {
		return err
	}
	const name = "bench-jobs"
	w.eyes.forget(false)
	body := bytes.Replace(definition(name, 0, jobClusters), []byte(`"topology":"star"`), []byte(`"topology":"mesh","delegation":"random"`), 1)
	if _, err := w.call(ctx, http.MethodPost, "/system/services?wait=2m", body, http.StatusCreated); err != nil {
		return err
	}
	warm, err := w.someJobs(ctx, name, 50, 1)
	if err != nil {
		return err
	}
	var alone, floor samples
	for range 3 {
		run, err := w.someJobs(ctx, name, max(o.repeated(200)/3, 3), 1)
		if err != nil {
			return err
		}
		alone = append(alone, run.posting...)
		if len(run.first) == 0 {
			run.first = warm.first
		}
		for range len(run.posting) {
			took, err := w.eyes.oneAfterAnother(ctx, run.first)
			if err != nil {
				return err
			}
			floor = append(floor, took)
		}
		out.sayf("one at a time: %s, floor %s", alone.both(), floor.both())
	}
	var many []*jobRun
	for i := range 3 {
		var run *jobRun
		if err := w.profiled(ctx, fmt.Sprintf("jobs-%d", i), func() error {
			run, err = w.someJobs(ctx, name, o.scaled(3000, 100), jobSenders)
			return err
		}); err != nil {
			return err
		}
		before, err := w.cpu()
		if err != nil {
			return err
		}
		if run.floorTook, err = w.eyes.allAtOnce(ctx, run.transactions); err != nil {
			return err
		}
		after, err := w.cpu()
		if err != nil {
			return err
		}
		run.floorCPU = after - before
		out.sayf("%d at once: %.0f a second, floor %.0f", run.n, run.rate(), run.floorRate())
		many = append(many, run)
	}
	out.jobs(warm, floor, alone, many)
	out.linef("")
	most := slices.MaxFunc(many, func(a, b *jobRun) int { return cmp.Compare(a.rate(), b.rate()) }).rate()
	rates := []float64{most / 2}
	if most > aimedJobs {
		rates = append(rates, aimedJobs/2)
	}
	for _, rate := range rates {
		var paced *jobRun
		if err := w.profiled(ctx, fmt.Sprintf("jobs-%.0f", rate), func() error {
			paced, err = w.pacedJobs(ctx, name, o.scaled(3000, 100), rate)
			return err
		}); err != nil {
			return err
		}
		out.linef("Sent %.0f a second: to the local POST %s, %.2f revisions for each.", rate, paced.posting.both(), paced.revisions())
	}
	return nil
}

// jobs prints the figures of jobs that were sent one at a time, over their floor, and of runs of
// many at once.
func (r *report) jobs(warm *jobRun, floor, alone samples, many []*jobRun) {
	r.heading("Jobs")
	r.table([]string{"jobs", "sent at a time", "to the local POST: floor", "to the local POST", "ratio", "revisions for each"}, [][]string{{
		fmt.Sprint(len(alone)), "1", floor.both(), alone.both(), alone.over(floor), fmt.Sprintf("%.1f", warm.revisions()),
	}})
	r.linef("")
	var rows [][]string
	for _, run := range many {
		each := func(d time.Duration) string { return ms(d / time.Duration(run.n)) }
		rows = append(rows, []string{
			fmt.Sprint(run.n), fmt.Sprint(jobSenders), fmt.Sprintf("%.0f/s", run.floorRate()), fmt.Sprintf("%.0f/s", run.acceptRate()), fmt.Sprintf("%.0f/s", run.rate()),
			fmt.Sprintf("%.2fx", run.rate()/run.floorRate()), run.posting.both(), fmt.Sprintf("%.2f", run.revisions()),
			each(run.floorCPU), each(run.serverCPU), each(run.fleetCPU), ratio(run.serverCPU+run.fleetCPU, run.floorCPU),
		})
	}
	r.table([]string{
		"jobs", "sent at a time", "submitted: floor", "accepted", "submitted", "ratio", "to the local POST", "revisions for each",
		"CPU for each: floor", "CPU: server", "CPU: fleet", "ratio",
	}, rows)
}

// jobRun is a number of jobs from the first POST to their ends.
type jobRun struct {
	n int
	// began is the first POST, accepted the last answer, submitted the last report that
	// an OSCAR has a job.
	began, accepted, submitted time.Time
	// posting is, for each job, from its POST to the report after which its syncer asks
	// its OSCAR.
	posting samples
	// transactions are all that were written until all had ended, and first those of
	// the first job to the local POST.
	transactions [][]seen
	first        [][]seen
	// serverCPU and fleetCPU are what they used, floorCPU what the floor did.
	serverCPU, fleetCPU, floorCPU time.Duration
	floorTook                     time.Duration
}

func (r *jobRun) rate() float64       { return float64(r.n) / r.submitted.Sub(r.began).Seconds() }
func (r *jobRun) acceptRate() float64 { return float64(r.n) / r.accepted.Sub(r.began).Seconds() }
func (r *jobRun) floorRate() float64  { return float64(r.n) / r.floorTook.Seconds() }
func (r *jobRun) revisions() float64  { return float64(len(r.transactions)) / float64(r.n) }

// someJobs sends n jobs, as many at a time as there are senders, and waits until all
// have ended.
func (w *bench) someJobs(ctx context.Context, service string, n, senders int) (*jobRun, error) {
	return w.runJobs(ctx, service, n, func(send func(i int)) {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range senders {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
					send(i)
				}
			})
		}
		wg.Wait()
	})
}

// pacedJobs sends n jobs, so many a second, whether or not those before are answered, and waits
// until all have ended.
func (w *bench) pacedJobs(ctx context.Context, service string, n int, rate float64) (*jobRun, error) {
	return w.runJobs(ctx, service, n, func(send func(i int)) {
		began := time.Now()
		var wg sync.WaitGroup
		for i := range n {
			if wait(ctx, time.Until(began.Add(time.Duration(float64(i)/rate*float64(time.Second))))) != nil {
				break // jobsEnded says why
			}
			wg.Go(func() { send(i) })
		}
		wg.Wait()
	})
}

// runJobs has all of n jobs sent, and waits until all have ended.
func (w *bench) runJobs(ctx context.Context, service string, n int, sendAll func(send func(i int))) (*jobRun, error) {
	w.eyes.forget(true)
	server, err := w.server.usage()
	if err != nil {
		return nil, err
	}
	fleet, err := w.fleet.usage()
	if err != nil {
		return nil, err
	}
	r := &jobRun{n: n, began: time.Now()}
	ids, sent, errs := make([]string, n), make([]time.Time, n), make([]error, n)
	sendAll(func(i int) { ids[i], sent[i], errs[i] = w.submit(ctx, service, jobEvent) })
	r.accepted = time.Now()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	at := map[string]time.Time{}
	for i, id := range ids {
		at[id] = sent[i]
	}
	if err := w.eyes.jobsEnded(ctx, n); err != nil {
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
	r.serverCPU, r.fleetCPU = serverAfter.cpu-server.cpu, fleetAfter.cpu-fleet.cpu
	if _, err := w.eyes.settled(ctx, 200*time.Millisecond); err != nil {
		return nil, err
	}
	return r, r.read(w.eyes.taken(), at)
}

// submit sends one job with an event of some bytes, and returns its id, and when it was written to
// the connection.
func (s *server) submit(ctx context.Context, service string, event int) (id string, sent time.Time, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { sent = time.Now() },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.api+"/job/"+service, strings.NewReader(strings.Repeat("e", event)))
	if err != nil {
		return "", sent, err
	}
	req.SetBasicAuth(user, password)
	resp, err := s.client.Do(req)
	if err != nil {
		return "", sent, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusCreated {
		err = fmt.Errorf("a job was answered %d: %.300s", resp.StatusCode, text)
	}
	return resp.Header.Get("X-Job-ID"), sent, err
}

// jobsEnded returns when so many jobs have.
func (o *observer) jobsEnded(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, await.Limit)
	defer cancel()
	ended := map[string]bool{}
	return o.follow(ctx, func(e seen) bool {
		if record.ParseKey(e.key).Kind != record.KindJob || e.deleted {
			return false
		}
		var j record.Job
		if json.Unmarshal(e.value, &j) == nil && j.State.Ended() {
			ended[j.Job] = true
		}
		return len(ended) == n
	})
}

// taken are all events that were seen since forget.
func (o *observer) taken() []seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events)
}

// read finds out of what was written when each job was where.
func (r *jobRun) read(events []seen, sent map[string]time.Time) error {
	posting, arrived := map[string]time.Time{}, map[string]bool{}
	of := map[int64]int{}
	firstJob := ""
	for _, e := range events {
		ref := record.ParseKey(e.key)
		switch ref.Kind {
		case record.KindJob, record.KindEvent, record.KindDecision, record.KindReserved, record.KindAssignment, record.KindAssignedEvent, record.KindJobReport, record.KindRequest:
		default:
			continue // a report of what is free, and others that no job makes
		}
		i, known := of[e.rev]
		if !known {
			i = len(r.transactions)
			of[e.rev] = i
			r.transactions = append(r.transactions, nil)
		}
		r.transactions[i] = append(r.transactions[i], e)
		if ref.Kind == record.KindJob && firstJob == "" {
			firstJob = ref.Name
		}
		if ref.Kind != record.KindJobReport || e.deleted {
			continue
		}
		var report record.JobReport
		if err := json.Unmarshal(e.value, &report); err != nil {
			return err
		}
		if _, seen := posting[ref.Name]; !seen && report.State.Posted() {
			posting[ref.Name] = e.at
			if ref.Name == firstJob {
				r.first = slices.Clone(r.transactions)
			}
		}
		switch report.State {
		case record.JobSubmitted, record.JobRunning, record.JobSucceeded:
			if !arrived[ref.Name] {
				arrived[ref.Name], r.submitted = true, e.at
			}
		}
	}
	for id, at := range posting {
		begun, ours := sent[id]
		if !ours {
			return fmt.Errorf("job %s is none of this run", id)
		}
		r.posting = append(r.posting, at.Sub(begun))
	}
	if len(r.posting) != r.n {
		return fmt.Errorf("%d of %d jobs were seen on their way to an OSCAR", len(r.posting), r.n)
	}
	return nil
}

// oneAfterAnother is the floor of one job: its transactions to the local POST, with
// their operations and bytes, each once the one before it is answered.
func (o *observer) oneAfterAnother(ctx context.Context, transactions [][]seen) (time.Duration, error) {
	began := time.Now()
	for _, events := range transactions {
		if _, err := o.write(ctx, events, false); err != nil {
			return 0, err
		}
	}
	return time.Since(began), o.clean(ctx)
}

// allAtOnce is the floor of many: all transactions of a run, by a number of bare clients.
func (o *observer) allAtOnce(ctx context.Context, transactions [][]seen) (time.Duration, error) {
	o.forget(false)
	began := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, bareWriters)
	for worker := range bareWriters {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(transactions) && errs[worker] == nil; i = int(next.Add(1)) - 1 {
				_, errs[worker] = o.write(ctx, transactions[i], false)
			}
		})
	}
	wg.Wait()
	return time.Since(began), errors.Join(errors.Join(errs...), o.clean(ctx))
}

// clean takes away what was replayed.
func (o *observer) clean(ctx context.Context) error {
	_, err := o.client.Delete(ctx, bareRoot, clientv3.WithPrefix())
	return err
}
