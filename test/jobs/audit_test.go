package jobs_test

import (
	"math"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// all reads the records of all jobs.
func (p *proof) all() map[string]*record.Job {
	p.t.Helper()
	items, _, err := p.Store.List(p.t.Context(), record.JobsPrefix)
	if err != nil {
		p.t.Fatal(err)
	}
	out := make(map[string]*record.Job, len(items))
	for _, kv := range items {
		job, err := store.Decode[record.Job](kv)
		if err != nil {
			p.t.Fatal(err)
		}
		out[job.Job] = job
	}
	return out
}

// settle waits until every job has ended, and nothing of its attempts is left. It gives up when nothing more ends: how long
// they take together says how busy the machine is.
func (p *proof) settle(l *load) time.Duration {
	p.t.Helper()
	tell, ended := time.Now(), time.Now()
	leastJobs, leastReports := math.MaxInt, math.MaxInt
	for {
		began := time.Now()
		open := map[record.JobState]int{}
		jobs := p.all()
		for _, id := range l.accepted {
			if job := jobs[id]; job != nil && !job.State.Ended() {
				open[job.State]++
			}
		}
		reports := map[record.JobState]int{}
		for _, id := range p.ids {
			p.reports(id, reports)
		}
		if len(open) == 0 && len(reports) == 0 {
			return time.Since(p.began)
		}
		if n, m := sum(open), sum(reports); n < leastJobs || n == leastJobs && m < leastReports {
			leastJobs, leastReports, ended = n, m, time.Now()
		}
		if time.Since(tell) > tellEvery {
			tell = time.Now()
			p.t.Logf("%.0f s: jobs %v, reports %v", time.Since(p.began).Seconds(), open, reports)
		}
		if time.Since(ended) > 5*time.Minute {
			p.t.Fatalf("jobs that do not end: %v, reports %v", open, reports)
		}
		<-time.After(500*time.Millisecond + 10*time.Since(began)) // reading them all is work, too
	}
}

func sum(counts map[record.JobState]int) (n int) {
	for _, one := range counts {
		n += one
	}
	return n
}

// reports counts what a syncer says of attempts.
func (p *proof) reports(cluster string, into map[record.JobState]int) {
	p.t.Helper()
	items, _, err := p.Store.List(p.t.Context(), record.JobReportsPrefix(cluster))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, kv := range items {
		r, err := store.Decode[record.JobReport](kv)
		if err != nil {
			p.t.Fatal(err)
		}
		into[r.State]++
	}
}

// audit compares what was accepted with what was started and how it ended.
func (p *proof) audit(l *load, nemesis *nemesis, submitted, healed, ended time.Duration) {
	p.t.Helper()
	for _, id := range p.ids {
		p.Cluster(id).Sim.Settle() // work that is late
	}
	names, events := map[string]int{}, map[string]int{}
	for _, id := range p.ids {
		starts := p.Cluster(id).Sim.Starts()
		for name, n := range starts.Names {
			names[name] += n
		}
		for event, n := range starts.Events {
			events[event] += n
		}
	}
	twice := 0 // in one attempt
	for name, n := range names {
		if n > 1 {
			twice++
			p.t.Errorf("%s was started %d times", name, n)
		}
	}
	jobs := p.all()
	states := map[record.JobState]int{}
	lost, twiceInAll, never, attempts := 0, 0, 0, 0
	for i, id := range l.accepted {
		job, n := jobs[id], events[event(i)]
		if job == nil {
			lost++
			p.t.Errorf("job %d (%s) is lost", i, id)
			continue
		}
		states[job.State]++
		attempts += job.Attempt
		if n > 1 {
			twiceInAll++
			// A cluster that comes between the restore and the moment in which a control
			// plane notices it believes what the old store asks of it.
			tell := p.t.Errorf
			if nemesis.restored && n <= job.Attempt {
				tell = p.t.Logf
			}
			tell("job %d was started %d times, in %d attempts: %+v", i, n, job.Attempt, job.Past)
			n = 1
		}
		switch job.State {
		case record.JobSucceeded, record.JobFailed:
			if n != 1 {
				p.t.Errorf("job %d is %s, and was started %d times", i, job.State, n)
			}
		case record.JobParked:
			if n != 0 {
				p.t.Errorf("job %d is parked, and was started %d times", i, n)
			}
		case record.JobVanished:
			if n == 0 {
				never++
			}
		case record.JobCancelled:
			if _, ordered := l.cancelled.Load(i); !ordered {
				p.t.Logf("job %d is cancelled, and that order was not answered: %+v", i, job)
			}
		default:
			p.t.Errorf("job %d ended as %q", i, job.State)
		}
	}
	if len(jobs) != len(l.accepted) {
		p.t.Errorf("%d jobs in the store, %d accepted", len(jobs), len(l.accepted))
	}
	l.mismatched.Range(func(i, id any) bool {
		p.t.Errorf("job %v was accepted as %s and as %v", i, l.accepted[i.(int)], id)
		return true
	})
	left := 0
	for _, id := range p.ids {
		left += len(p.Keys(record.AssignmentsPrefix(id))) + len(p.Keys(record.JobReportsPrefix(id)))
	}
	if reserved := p.Keys(record.ReservedPrefix); left > 0 || len(reserved) > 0 {
		p.t.Errorf("%d assignments and reports are left, and %v", left, reserved)
	}
	p.t.Logf("jobs %d over %d clusters, seed %d", p.jobs, clusterCount, p.seed)
	p.t.Logf("faults: %s; sent twice on purpose %d, sent in all %d, cancelled %d", nemesis, l.again.Load(), l.sent.Load(), l.cancel.Load())
	exchanges, reuses := p.users.issuer.Exchanges()
	if reuses > 0 {
		p.t.Errorf("%d refresh tokens were used twice", reuses)
	}
	p.t.Logf("access tokens that holders gave for expired ones: %d", exchanges)
	p.t.Logf("lost %d, started twice in an attempt %d, started twice in all %d, uncertain 0, started %d", lost, twice, twiceInAll, len(events))
	p.t.Logf("ends: %v; of the vanished %d were never started; attempts %d", states, never, attempts)
	p.t.Logf("accepted after %.1f s (%.0f/s), mended after %.1f s, all ended after %.1f s; revision %d (%.2f for each job)",
		submitted.Seconds(), float64(p.jobs)/submitted.Seconds(), healed.Seconds(), ended.Seconds(), p.Revision(), float64(p.Revision())/float64(p.jobs))
}
