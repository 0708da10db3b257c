package jobs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// round is one scan of the queues.
type round struct {
	// seen is when this instance first saw what jobs wait for.
	seen *clock.FirstSeen
	now  time.Time
	// needs are what the jobs of a federation ask for; nil when that is not known.
	needs   func(*record.Federation) *Needs
	weights Weights
	// tooMany says that a job that is offered would be one too many.
	tooMany func(*view.View, *offerSituation) bool
	epoch   string
	// scope is what it looks at.
	scope scope
	// clusters, and the candidates of federations, are those that the round has looked at.
	clusters   map[string]*cluster
	candidates map[string]*Candidates
	// heads are the classes of jobs that some member has room for, and blocked the federations
	// of those that wait for it.
	heads   heads
	blocked map[string]bool
	steps   []*assignStep
	notes   []*step
	bytes   int
	// free counts the jobs that the round assigns although they take no part of any cluster, of an account, and of it
	// in a federation.
	free map[sender]int
	// due is when queues of federations are to be looked at again, because the pause of a job ends.
	due map[string]time.Time
	// more says that the transaction cannot hold everything that can be done now, and left which
	// federations have what it cannot hold.
	more bool
	left map[string]bool
	// classes counts those that it looked at.
	classes int
	// unwanted are the classes of offered Jobs that no other member takes now, and choices counts the
	// members that were looked for.
	unwanted map[offerClass]bool
	choices  int
}

func newRound(seen *clock.FirstSeen, now time.Time, weights Weights, needs func(*record.Federation) *Needs) *round {
	return &round{
		seen: seen, now: now, needs: needs, weights: weights, scope: scope{all: true},
		tooMany:  func(*view.View, *offerSituation) bool { return false },
		clusters: map[string]*cluster{}, candidates: map[string]*Candidates{}, blocked: map[string]bool{},
		due: map[string]time.Time{}, left: map[string]bool{}, unwanted: map[offerClass]bool{},
		free: map[sender]int{},
	}
}

// assignStep is a job that is to be assigned.
type assignStep struct {
	step
	recipient seal.Recipient
	snapshot  delegation.Snapshot
	decision  delegation.Decision
}

// roundResult is the result of a round.
type roundResult struct {
	// next is when to look again.
	next time.Duration
	// more says that there is more to do at once, and waits that jobs or offers are waiting.
	more, waits bool
}

// fill enters the jobs that can be assigned now.
func (p *round) fill(v *view.View) {
	p.epoch = v.Epoch()
	if p.scope.all {
		clear(p.blocked)
		for uid := range v.Jobs.Queued.Keys() {
			p.look(v, uid)
		}
	} else {
		for uid := range p.scope.of {
			p.look(v, uid)
		}
	}
	p.serve(v)
	// Notes about waiting jobs use only the space that assignments leave.
	if room := assignAtOnce - len(p.steps); len(p.notes) > room {
		for _, note := range p.notes[room:] {
			p.left[note.was.Federation] = true
		}
		p.notes, p.more = p.notes[:room], true
	}
}

// look enters the classes of a federation that some member has room for.
func (p *round) look(v *view.View, uid string) {
	delete(p.blocked, uid)
	f := v.Federations.Get(uid).Rec
	if f == nil || f.Paused {
		return
	}
	need := p.needs(f)
	if need == nil || need.broken {
		return
	}
	for account, queue := range v.Jobs.Queued.Get(uid).All() {
		for class, jobs := range queue.All() {
			p.classes++
			h := &head{fed: f, account: account, class: class, request: need.request, jobs: jobs}
			switch {
			case stranded(f, class, need.reads):
				p.park(v, h)
			case !p.queue(v, h):
				p.full(v, h)
			}
		}
	}
}

// stranded says whether no member may ever take the jobs of a class: where they came in is no member any
// more, and the others do not take them from there.
func stranded(f *record.Federation, class view.Class, reads bool) bool {
	if class.From != "" {
		return false
	}
	endpoint := false
	for _, m := range f.Members {
		if m.Replica() && m.ClusterID == class.Cluster && m.ServiceName == class.Service {
			return false
		}
		endpoint = endpoint || !m.Replica()
	}
	return f.Topology != oscar.TopologyMesh || class.BucketEvent && reads && !endpoint
}

// park ends the wait of the jobs of a class that is stranded: a person decides about them.
func (p *round) park(v *view.View, h *head) {
	fl := p.candidatesOf(v, h.fed)
	if fl == nil || fl.held || fl.older && h.class.Epoch != p.epoch {
		return
	}
	for ; p.skip(v, h); h.jobs = h.jobs.Rest() {
		if len(p.notes) >= assignAtOnce {
			p.more, p.left[h.fed.UID] = true, true
			return
		}
		j := v.Jobs.ByID.Get(h.jobs.First().ID())
		next, at := *j.Rec, record.At(p.now)
		next.State, next.Reason, next.NotBefore, next.EndedAt, next.ChangedAt = record.JobParked, record.JobServiceGone, nil, &at, at
		next.Message = fmt.Sprintf("the service that it came in at, %s on %s, is no member any more, and no other may take it from there", next.Service, next.Cluster)
		p.notes = append(p.notes, &step{name: "park", rev: j.Rev, was: *j.Rec, next: next, watch: map[string]int64{record.FederationKey(h.fed.UID): fl.rev}})
	}
}

// candidatesOf are the candidates of a federation; nil when none of its jobs is assigned now.
func (p *round) candidatesOf(v *view.View, f *record.Federation) *Candidates {
	fl, known := p.candidates[f.UID]
	if !known {
		fl, _ = CandidatesOf(v, f.UID, p.needs(f))
		p.candidates[f.UID] = fl
	}
	if fl != nil {
		p.promisedTo(v, fl)
	}
	return fl
}

// choice is the member that the first job of a class goes to.
type choice struct {
	candidates *Candidates
	at         int
	snapshot   delegation.Snapshot
	decision   delegation.Decision
}

// choose chooses the member for the first job of a class that may be assigned now. It is false
// when there is none.
func (p *round) choose(v *view.View, h *head) (choice, bool) {
	fl := p.candidatesOf(v, h.fed)
	if fl == nil || fl.held || fl.older && h.class.Epoch != p.epoch || !p.skip(v, h) {
		return choice{}, false
	}
	out := choice{candidates: fl}
	out.snapshot, out.decision = fl.choose(v.Jobs.ByID.Get(h.jobs.First().ID()).Rec)
	if out.decision.Chosen == "" {
		p.full(v, h)
		return choice{}, false
	}
	out.at = slices.IndexFunc(out.snapshot.Candidates, func(c delegation.Candidate) bool { return c.Place() == out.decision.Chosen })
	return out, true
}

// skip leaves out jobs at the beginning of a class that rest, or that a member has, or may have, or that go
// back to where they are frozen. It is false when none is left.
func (p *round) skip(v *view.View, h *head) bool {
	for ; !h.jobs.Empty(); h.jobs = h.jobs.Rest() {
		id := h.jobs.First().ID()
		if j := v.Jobs.ByID.Get(id).Rec; !isFound(v, id) && !thawed(v, j) && !(j.Frozen != nil && givenUp(j)) && !p.rests(j) {
			return true
		}
	}
	return false
}

// rests says whether the pause of a job is not over.
func (p *round) rests(j *record.Job) bool {
	if j.NotBefore == nil {
		return false
	}
	since := p.seen.Since(j.Job, j.NotBefore.String(), p.now)
	at := gate.Due(j.ChangedAt, *j.NotBefore, since)
	if !at.After(p.now) {
		return false
	}
	p.lookAt(j.Federation, at)
	return true
}

// lookAt demands another look at the queues of a federation at a time.
func (p *round) lookAt(uid string, at time.Time) {
	if due, ok := p.due[uid]; !ok || at.Before(due) {
		p.due[uid] = at
	}
}

// rankOf is the rank of a class whose first job goes where it was chosen to go.
func (p *round) rankOf(v *view.View, h *head, c choice) rank {
	if m := c.candidates.Members[c.at]; m.Replica() {
		return p.rankAt(v, h, p.cluster(v, m.ClusterID))
	}
	return p.rankOfFree(h)
}

// promisedTo enters the reserved capacity into the candidates, with that of this round.
func (p *round) promisedTo(v *view.View, fl *Candidates) {
	for i := range fl.snapshot.Candidates {
		if fl.Members[i].Replica() {
			fl.snapshot.Candidates[i].Promised = promisesOf(p.cluster(v, fl.Members[i].ClusterID).promised)
		}
	}
}

// listOf is the list of promises; nil for none.
func listOf(v view.Versioned[record.Reserved]) []record.Promise {
	if v.Rec == nil {
		return nil
	}
	return v.Rec.Jobs
}

// noCandidateMessage says in one line why no member takes a job.
func noCandidateMessage(d delegation.Decision) string {
	whys := make([]string, len(d.Verdicts))
	for i, v := range d.Verdicts {
		whys[i] = fmt.Sprintf("%s %s", v.Place, v.Why)
	}
	return view.Shorten("no member can take it now; explain says more: "+strings.Join(whys, ", "), maxMessage)
}

// full notes once, in the record of the first job of a class, that no member takes it now, and why.
// The jobs behind it say the same where they are shown.
func (p *round) full(v *view.View, h *head) {
	// A bucket event may have only one possible member: other jobs do not wait behind it.
	p.blocked[h.fed.UID] = p.blocked[h.fed.UID] || !h.class.BucketEvent
	if !p.skip(v, h) {
		return
	}
	j := v.Jobs.ByID.Get(h.jobs.First().ID())
	if j.Rec.Reason == record.JobNoCandidate {
		return
	}
	since := p.seen.Since(j.Rec.Job+"/waits", j.Rec.ChangedAt.String(), p.now).Add(waitsFor)
	switch {
	case p.now.Before(since):
		p.lookAt(h.fed.UID, since)
	case len(p.notes) < assignAtOnce:
		fl := p.candidatesOf(v, h.fed)
		if fl == nil || fl.held || fl.older && h.class.Epoch != p.epoch {
			return // it does not wait for capacity
		}
		_, decision := fl.choose(j.Rec)
		next := *j.Rec
		next.Reason, next.Message = record.JobNoCandidate, noCandidateMessage(decision)
		next.NotBefore, next.ChangedAt = nil, record.At(p.now) // its pause is over: see skip
		p.notes = append(p.notes, &step{name: "wait", rev: j.Rev, was: *j.Rec, next: next})
	default:
		p.more, p.left[h.fed.UID] = true, true
	}
}

// assign enters an assignment into the round.
func (p *round) assign(v *view.View, h *head, c choice) {
	j := v.Jobs.ByID.Get(h.jobs.First().ID())
	m, next := c.candidates.Members[c.at], *j.Rec
	if !m.Replica() || h.takesNothing(p.cluster(v, m.ClusterID)) {
		p.free[sender{account: h.account}]++
		p.free[sender{h.account, h.fed.UID}]++
	}
	next.State, next.Attempt, next.NotBefore, next.Epoch = record.JobAssigned, next.Attempt+1, nil, p.epoch
	next.Reason, next.Message, next.ChangedAt = "", "", record.At(p.now)
	step := &assignStep{
		step: step{
			name: "assign", rev: j.Rev, was: *j.Rec,
			watch: map[string]int64{record.FederationKey(h.fed.UID): c.candidates.rev},
		},
		snapshot: c.snapshot, decision: c.decision,
	}
	if f := next.Frozen; f != nil {
		next.Hops++
		// It may start there at this moment.
		step.watch[record.OfferKey(f.ClusterID, next.Job)] = v.Nodes.Get(f.ClusterID).Offers.Get(next.Job).Rev
	}
	if !m.Replica() {
		next.Place = &record.Place{ServiceName: m.ServiceName, URL: m.URL}
	} else {
		room := roomOf(c.snapshot.Request)
		next.Place = &record.Place{
			ClusterID: m.ClusterID, ServiceName: m.ServiceName, UID: m.UID, ClusterUID: v.ClusterUID(m.ClusterID),
			Name: record.JobName(m.ServiceName, next.Job, next.Attempt), Takes: &room,
		}
		next.Reserved = &room
		at := p.cluster(v, m.ClusterID)
		step.base = at.promised
		at.take(h.account, h.fed.UID, c.snapshot.Request)
		step.watch[record.DesiredServiceKey(m.ClusterID, m.ServiceName)] = c.candidates.desired[c.at]
		step.watch[record.SessionKey(m.ClusterID)] = v.Session(m.ClusterID)
		step.recipient = v.SealsTo(m.ClusterID)
	}
	step.next = next
	p.steps = append(p.steps, step)
	// Sealed, in base64, and with its decision.
	p.bytes += next.Size*4/3 + 8<<10
}
