package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/test/world"
)

const (
	submitters = 64
	// duplicates is one in so many submissions that is sent twice, and cancels one in so
	// many jobs that is cancelled.
	duplicates, cancels = 20, 100
	// tellEvery is how often a long run says how far it is.
	tellEvery = 10 * time.Second
)

var admin = identity.Caller{Subject: identity.Admin, Administrator: true}

// planes are the instances of the control plane that live.
type planes struct {
	mu    sync.Mutex
	alive []plane
}

// plane is one instance; requests to it break off when it is killed.
type plane struct {
	*controlplane.ControlPlane
	life context.Context
	end  context.CancelFunc
}

func (p *planes) start(w *world.World) {
	p.alive = []plane{newPlane(w, w.CP), newPlane(w, w.StartControlPlane("control-plane-1"))}
}

func newPlane(w *world.World, cp *controlplane.ControlPlane) plane {
	life, end := context.WithCancel(w.T.Context())
	return plane{cp, life, end}
}

func (p *planes) pick(i int) plane {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alive[i%len(p.alive)]
}

// replace kills an instance and starts another one. Meanwhile there is none in its place.
func (p *planes) replace(w *world.World, i int) {
	old := p.pick(i)
	w.KillControlPlane(old.ControlPlane)
	old.end()
	fresh := newPlane(w, w.StartControlPlane("control-plane-1"))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alive[i] = fresh
}

// load submits the jobs, each with a key of its own, until it is accepted.
type load struct {
	p *proof
	// accepted are the ids by the number of the job.
	accepted              []string
	again, sent, cancel   atomic.Int64
	done                  atomic.Int64 // that were accepted
	held                  sync.RWMutex // held for writing while nothing is submitted
	mismatched, cancelled sync.Map
}

func newLoad(p *proof) *load { return &load{p: p, accepted: make([]string, p.jobs)} }

func event(i int) string { return fmt.Sprintf("event %d", i) }

// run submits all jobs; a quarter and half of them are submitted when etcd is restarted
// and restored.
func (l *load) run(n *nemesis) {
	next := make(chan int)
	var group sync.WaitGroup
	for k := range submitters {
		group.Go(func() {
			draw := l.p.rand(uint64(1000 + k))
			for i := range next {
				l.held.RLock()
				l.accepted[i] = l.submit(i, draw.IntN(2))
				if draw.IntN(duplicates) == 0 {
					l.again.Add(1)
					if id := l.submit(i, draw.IntN(2)); id != l.accepted[i] {
						l.mismatched.Store(i, id)
					}
				}
				l.held.RUnlock()
				l.done.Add(1)
				if draw.IntN(cancels) == 0 {
					l.order(i, draw.IntN(2))
				}
			}
		})
	}
	told := time.Now()
	for i := range l.p.jobs {
		if time.Since(told) > tellEvery {
			told = time.Now()
			l.p.t.Logf("%.0f s: %d jobs accepted", time.Since(l.p.began).Seconds(), l.done.Load())
		}
		switch i {
		case l.p.jobs / 4:
			n.order(n.restart)
		case l.p.jobs / 2:
			n.order(n.restore)
		}
		next <- i
	}
	close(next)
	group.Wait()
}

// submit sends a job until the answer is its id.
func (l *load) submit(i, at int) string {
	for {
		l.sent.Add(1)
		to, f := l.p.pick(at), i%federationCount
		ctx, cancel := context.WithTimeout(to.life, 20*time.Second)
		req := jobs.Request{Service: l.p.name(f), Event: []byte(event(i)), IdempotencyKey: fmt.Sprintf("key %d", i)}
		job, err := l.ask(ctx, to, i, req)
		cancel()
		if err == nil {
			return job.ID
		}
		if e, ok := errors.AsType[*fault.Error](err); ok && e.Code == fault.CodeInvalid || l.p.t.Context().Err() != nil {
			l.p.t.Errorf("job %d: %v", i, err)
			return ""
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-l.p.t.Context().Done():
		}
		at++
	}
}

// ask sends a job as the owner of its federation, or with the service's own token, as
// OSCAR's callers do.
func (l *load) ask(ctx context.Context, to plane, i int, req jobs.Request) (*jobs.Job, error) {
	f := i % federationCount
	as := caller(f)
	if i/federationCount%2 == 1 {
		var err error
		if as, err = to.Tokens.ServiceCaller(ctx, req.Service, l.p.tokens[f]); err != nil {
			return nil, err
		}
	}
	return to.Jobs.Submit(ctx, as, req)
}

// order cancels a job, if it can be asked at this moment.
func (l *load) order(i, at int) {
	to := l.p.pick(at)
	ctx, cancel := context.WithTimeout(to.life, 5*time.Second)
	defer cancel()
	if _, err := to.Jobs.Cancel(ctx, caller(i%federationCount), jobs.Order{Job: l.accepted[i]}); err == nil {
		l.cancel.Add(1)
		l.cancelled.Store(i, true)
	}
}
