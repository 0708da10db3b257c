package jobs

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

const (
	// assignAtOnce and assignBytes bound the jobs, and their sealed events, of one
	// transaction: etcd takes 1.5 MiB.
	assignAtOnce = 25
	assignBytes  = 900 << 10
	// assignPause lies between two passes that find nobody for what waits.
	assignPause = 50 * time.Millisecond
	// assignTick is the time between two passes while jobs wait and nothing happens.
	assignTick = 5 * time.Second
	// waitsFor is how long a job waits before its record says that nobody takes it:
	// what is taken soon costs no revision.
	waitsFor = 500 * time.Millisecond
)

// dispatcher assigns queued jobs. Each instance of the control plane runs one; the
// transaction of an assignment compares what it was decided on, so that of two
// dispatchers one wins. The other steps back for a moment.
type dispatcher struct {
	wake chan struct{}
	// gzips are writers that are used again: each has about a megabyte.
	gzips sync.Pool
	// events are those that this instance has accepted and not assigned yet.
	events eventCache
}

func newDispatcher() *dispatcher {
	return &dispatcher{wake: make(chan struct{}, 1), events: eventCache{most: eventMemorySize}}
}

func (d *dispatcher) look() { view.Nudge(d.wake) }

// Dispatch assigns jobs until ctx ends.
func (c *Controller) dispatch(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var lost time.Duration
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.dispatcher.wake:
		case <-timer.C:
		}
		seen, err := c.assign(ctx)
		next := seen.next
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, gate.ErrStale), errors.Is(err, gate.ErrFence):
			// Another instance is at it.
			lost = min(max(2*lost, 25*time.Millisecond), 400*time.Millisecond)
			next = lost/2 + rand.N(lost) //nolint:gosec // spreads load, guards nothing
		case err != nil:
			c.cfg.Logger.Warn("jobs were not assigned; it is tried again", "error", err)
			next = time.Second
		case seen.more:
			lost = 0
			c.dispatcher.look()
			continue
		case seen.waits:
			// Everything that happens anywhere may have made room: it is looked at together.
			lost = 0
			if !gate.Pause(ctx, assignPause) {
				return ctx.Err()
			}
		default:
			lost = 0
		}
		timer.Reset(next)
	}
}

// round is one look at the queues.
type round struct {
	// seen is when this instance first saw what jobs wait for.
	seen   *clock.Sightings
	now    time.Time
	epoch  string
	fields map[string]*Candidates
	// promised is what stands, and what this pass adds to it, by cluster.
	promised map[string][]record.Promise
	// full are the classes of jobs that nobody has room for, with why, and blocked their
	// federations.
	full    map[string]string
	blocked map[string]bool
	steps   []*assignStep
	notes   []*jobStep
	bytes   int
	// next is when the first pause of a job ends.
	next time.Time
	// more says that there was no place for everything that can be done now.
	more bool
}

// assignStep is a job that is to be assigned.
type assignStep struct {
	jobStep
	recipient seal.Recipient
	snapshot  delegation.Snapshot
	decision  delegation.Decision
}

// roundResult is what came of a pass.
type roundResult struct {
	// next is when to look again.
	next time.Duration
	// more says that there is more to do at once, waits that something was there for
	// which nothing could be done.
	more, waits bool
}

// assign makes one pass and writes it.
func (c *Controller) assign(ctx context.Context) (roundResult, error) {
	if c.gate.Unverified() {
		return roundResult{}, gate.ErrStale
	}
	if err := c.learnNeeds(ctx); err != nil {
		return roundResult{}, err
	}
	p := &round{
		seen: &c.seen,
		now:  c.cfg.Now(), fields: map[string]*Candidates{}, promised: map[string][]record.Promise{}, full: map[string]string{}, blocked: map[string]bool{},
	}
	out := roundResult{next: assignTick}
	c.state.Read(func(v *view.View) {
		out.waits = len(v.Jobs.Queued)+len(v.Jobs.Offered) > 0
		fillRound(v, p, c.needs.get)
		freezes(v, p, c.needs.get)
	})
	if !p.next.IsZero() {
		out.next = min(out.next, max(p.next.Sub(p.now), time.Millisecond))
	}
	ready, err := c.sealed(ctx, p.steps)
	if err != nil {
		return roundResult{}, err
	}
	ready = append(ready, p.notes...)
	if len(ready) == 0 {
		return out, nil
	}
	done, err := c.commitJobs(ctx, ready)
	switch {
	case err != nil:
		return roundResult{}, err
	case len(done) < len(ready):
		return roundResult{}, gate.ErrStale
	}
	out.more = p.more || len(p.steps) > 0
	return out, nil
}

// fillRound fills a pass with what can be assigned now.
func fillRound(v *view.View, p *round, needs func(*record.Federation) *Needs) {
	p.epoch = v.Epoch()
	var queues []*jobQueue
	for uid := range v.Jobs.Queued {
		f := v.Federations[uid].Rec
		if f == nil {
			continue
		}
		fl, ok := CandidatesOf(v, uid, needs(f))
		if !ok || fl.held {
			continue
		}
		p.fields[uid] = fl
		queues = append(queues, queuesOf(v, uid, f.Members)...)
	}
	serve(queues, func(id string) (assigned, stop bool) {
		if len(p.steps) >= assignAtOnce || p.bytes >= assignBytes {
			p.more = true
			return false, true
		}
		before := len(p.steps)
		assignJob(v, p, id)
		return len(p.steps) > before, false
	})
	// That some wait holds nobody up who can go.
	if room := assignAtOnce - len(p.steps); len(p.notes) > room {
		p.notes, p.more = p.notes[:room], true
	}
}

// assignJob finds a place for one queued job.
func assignJob(v *view.View, p *round, id string) {
	j := v.Jobs.All[id]
	fl := p.fields[j.Rec.Federation]
	if j.Rec.NotBefore != nil {
		since := p.seen.Since(id, j.Rec.NotBefore.String(), p.now)
		if at := gate.Due(j.Rec.ChangedAt, *j.Rec.NotBefore, since); at.After(p.now) {
			if p.next.IsZero() || at.Before(p.next) {
				p.next = at
			}
			return
		}
	}
	if _, found := foundOf(v, id); found || fl.older && j.Rec.Epoch != p.epoch {
		return // a member has it, or may
	}
	class := classOf(j.Rec)
	if why := p.full[class]; why != "" {
		p.wait(j, why)
		return
	}
	promisedTo(v, p, fl)
	snapshot, decision := fl.choose(j.Rec)
	if decision.Chosen == "" {
		p.full[class] = nobodyTakes(decision)
		// An event of a bucket may have one place only: others do not wait behind it.
		p.blocked[j.Rec.Federation] = p.blocked[j.Rec.Federation] || !j.Rec.BucketEvent
		p.wait(j, p.full[class])
		return
	}
	i := slices.IndexFunc(snapshot.Candidates, func(c delegation.Candidate) bool { return c.Place() == decision.Chosen })
	assignTo(v, p, j, fl, i, snapshot, decision)
}

// promisedTo enters what is promised now, by this pass too.
func promisedTo(v *view.View, p *round, fl *Candidates) {
	for i := range fl.snapshot.Candidates {
		if cluster := fl.snapshot.Candidates[i].Cluster; fl.Members[i].Replica() {
			if _, ok := p.promised[cluster]; !ok {
				p.promised[cluster] = listOf(v.Jobs.Reserved[cluster])
			}
			fl.snapshot.Candidates[i].Promised = promisesOf(p.promised[cluster])
		}
	}
}

// listOf is what is promised; nil for nothing.
func listOf(v view.Versioned[record.Reserved]) []record.Promise {
	if v.Rec == nil {
		return nil
	}
	return v.Rec.Jobs
}

// classOf names the jobs that the same members can take.
func classOf(j *record.Job) string {
	return strings.Join(append([]string{
		j.Federation, j.Cluster, j.Service, fmt.Sprint(j.Hops), fmt.Sprint(j.BucketEvent), strings.Join(j.Visited, ","),
	}, refusedAt(j)...), "\x00")
}

// nobodyTakes says in one line why nobody takes a job.
func nobodyTakes(d delegation.Decision) string {
	whys := make([]string, len(d.Verdicts))
	for i, v := range d.Verdicts {
		whys[i] = fmt.Sprintf("%s %s", v.Place, v.Why)
	}
	return view.Shorten("no member can take it now; explain says more: "+strings.Join(whys, ", "), maxJobMessage)
}

// wait notes in the record that nobody takes a job, and why, once.
func (p *round) wait(j view.Versioned[record.Job], why string) {
	since := p.seen.Since(j.Rec.Job+"/waits", j.Rec.ChangedAt.String(), p.now).Add(waitsFor)
	switch {
	case j.Rec.Reason == record.JobNoCandidate:
	case p.now.Before(since):
		if p.next.IsZero() || since.Before(p.next) {
			p.next = since
		}
	case len(p.notes) < assignAtOnce:
		next := *j.Rec
		next.Reason, next.Message, next.ChangedAt = record.JobNoCandidate, why, record.At(p.now)
		p.notes = append(p.notes, &jobStep{name: "wait", rev: j.Rev, was: *j.Rec, next: next})
	default:
		p.more = true
	}
}

// assignTo enters an assignment into the pass.
func assignTo(v *view.View, p *round, j view.Versioned[record.Job], fl *Candidates, i int, snapshot delegation.Snapshot, decision delegation.Decision) {
	m, next := fl.Members[i], *j.Rec
	next.State, next.Attempt, next.NotBefore, next.Epoch = record.JobAssigned, next.Attempt+1, nil, p.epoch
	next.Reason, next.Message, next.ChangedAt = "", "", record.At(p.now)
	step := &assignStep{
		jobStep: jobStep{
			name: "assign", rev: j.Rev, was: *j.Rec,
			watch: map[string]int64{record.FederationKey(fl.fed.UID): fl.rev},
		},
		snapshot: snapshot, decision: decision,
	}
	if next.Frozen != nil {
		next.Hops++
	}
	if !m.Replica() {
		next.Place = &record.Place{ServiceName: m.ServiceName, URL: m.URL}
	} else {
		next.Place = &record.Place{
			ClusterID: m.ClusterID, ServiceName: m.ServiceName, UID: m.UID, ClusterUID: v.ClusterUID(m.ClusterID),
			Name: record.JobName(m.ServiceName, next.Job, next.Attempt),
		}
		room := reservationOf(snapshot.Request)
		next.Reserved = &room
		step.base = p.promised[m.ClusterID]
		p.promised[m.ClusterID] = promise(step.base, room, 1)
		step.watch[record.DesiredServiceKey(m.ClusterID, m.ServiceName)] = fl.desired[i]
		step.watch[record.SessionKey(m.ClusterID)] = v.Session(m.ClusterID)
		step.recipient = v.SealsTo(m.ClusterID)
	}
	step.next = next
	p.steps = append(p.steps, step)
	// Sealed, in base64, and with its decision.
	p.bytes += next.Size*4/3 + 8<<10
}

// sealed seals the events of jobs that are assigned, each for its cluster. What this
// instance does not remember it opens. A job whose event cannot be had ends.
func (c *Controller) sealed(ctx context.Context, steps []*assignStep) ([]*jobStep, error) {
	if len(steps) == 0 {
		return nil, nil
	}
	bodies, known := make([][]byte, len(steps)), make([]bool, len(steps))
	var keys []string
	for i, p := range steps {
		if bodies[i], known[i] = c.dispatcher.events.take(p.id()); !known[i] {
			keys = append(keys, record.EventKey(p.id()))
		}
	}
	var view store.View
	if len(keys) > 0 {
		var err error
		if view, err = c.store.Read(ctx, keys...); err != nil {
			return nil, err
		}
	}
	out := make([]*jobStep, len(steps))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range steps {
		g.Go(func() error {
			out[i] = &p.jobStep
			if !known[i] {
				body, err := c.openEvent(view, p.id())
				if err != nil {
					c.cfg.Logger.Error("the event of a job cannot be had", "job", p.id(), "error", err)
					out[i] = lostEvent(p, c.cfg.Now())
					return nil
				}
				bodies[i] = body
			}
			return c.complete(p, bodies[i])
		})
	}
	return out, g.Wait()
}

// openEvent opens what events/<job> holds.
func (c *Controller) openEvent(v store.View, job string) ([]byte, error) {
	return c.openAt(v, record.EventKey(job), job)
}

// openAt opens an event of a job that is sealed to the control plane.
func (c *Controller) openAt(v store.View, key, job string) ([]byte, error) {
	kv, ok := v.KV(key)
	if !ok {
		return nil, store.ErrNotFound
	}
	e, err := store.Decode[record.Event](kv)
	if err != nil {
		return nil, err
	}
	return c.identity.Open(e.Sealed, seal.Header{Purpose: record.PurposeEvent, UID: job}, c.cfg.Now())
}

func lostEvent(p *assignStep, now time.Time) *jobStep {
	sit := jobSituation{job: p.was, now: now}
	d := sit.end(record.JobFailed, record.JobEventLost, "its event cannot be read any more")
	return &jobStep{name: "end", rev: p.rev, was: p.was, next: d.next, remove: []string{record.EventKey(p.id())}}
}

// complete adds to a step what stands beside the job's record.
func (c *Controller) complete(p *assignStep, body []byte) error {
	j := &p.next
	decision, err := c.dispatcher.encode(p.snapshot, p.decision, p.next.ChangedAt)
	if err != nil {
		return err
	}
	p.put = append(p.put, gate.Staged{Key: record.DecisionKey(j.Job, j.Attempt), Rec: decision})
	if old := j.Attempt - keepAttempts; old > 0 {
		p.remove = append(p.remove, record.DecisionKey(j.Job, old))
	}
	if j.Place.URL != "" {
		return nil
	}
	event, err := c.sealer.Seal(seal.Header{
		Purpose: record.PurposeEvent, Cluster: j.Place.ClusterID, UID: j.Job, Generation: int64(j.Attempt),
	}, body, p.recipient)
	if err != nil {
		return err
	}
	p.put = append(p.put,
		gate.Staged{Key: record.AssignmentKey(j.Place.ClusterID, j.Job, j.Attempt), Rec: assignmentOf(j)},
		gate.Staged{Key: record.AssignedEventKey(j.Place.ClusterID, j.Job, j.Attempt), Rec: record.Event{V: record.Version, Sealed: event}},
	)
	return nil
}

// reasons is the JSON in a record.Decision.
type reasons struct {
	Snapshot delegation.Snapshot `json:"snapshot"`
	Decision delegation.Decision `json:"decision"`
}

func (d *dispatcher) encode(s delegation.Snapshot, chosen delegation.Decision, at record.Time) (record.Decision, error) {
	doc, err := json.Marshal(reasons{s.Compact(), chosen})
	if err != nil {
		return record.Decision{}, fmt.Errorf("encode a decision: %w", err)
	}
	var b bytes.Buffer
	w, _ := d.gzips.Get().(*gzip.Writer)
	if w == nil {
		w, _ = gzip.NewWriterLevel(&b, gzip.BestSpeed) // a level that there is
	}
	defer d.gzips.Put(w)
	w.Reset(&b)
	_, err = w.Write(doc)
	if err := cmp.Or(err, w.Close()); err != nil {
		return record.Decision{}, fmt.Errorf("encode a decision: %w", err)
	}
	return record.Decision{V: record.Version, At: at, Gzip: base64.StdEncoding.EncodeToString(b.Bytes())}, nil
}

// maxDecision bounds a decision that is read, in bytes.
const maxDecision = 4 << 20

func decodeDecision(rec *record.Decision) (reasons, error) {
	var out reasons
	raw, err := base64.StdEncoding.DecodeString(rec.Gzip)
	if err != nil {
		return out, err
	}
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return out, err
	}
	return out, json.NewDecoder(io.LimitReader(r, maxDecision)).Decode(&out)
}
