package jobs

import (
	"fmt"
	"slices"
	"strings"
	"time"

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
	seen       *clock.FirstSeen
	now        time.Time
	epoch      string
	candidates map[string]*Candidates
	// promised is the reserved capacity by cluster, with what this round adds.
	promised map[string][]record.Promise
	// full are the classes of jobs that no member has capacity for, with the reason, and blocked
	// their federations.
	full    map[string]string
	blocked map[string]bool
	steps   []*assignStep
	notes   []*jobStep
	bytes   int
	// next is when the first pause of a job ends.
	next time.Time
	// more says that the transaction cannot hold everything that can be done now.
	more bool
}

// assignStep is a job that is to be assigned.
type assignStep struct {
	jobStep
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

// fillRound fills a round with the jobs that can be assigned now.
func fillRound(v *view.View, p *round, needs func(*record.Federation) *Needs) {
	p.epoch = v.Epoch()
	var queues []*jobQueue
	for uid := range v.Jobs.Queued.All() {
		f := v.Federations.Get(uid).Rec
		if f == nil {
			continue
		}
		fl, ok := CandidatesOf(v, uid, needs(f))
		if !ok || fl.held {
			continue
		}
		p.candidates[uid] = fl
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
	// Notes about waiting jobs use only the space that assignments leave.
	if room := assignAtOnce - len(p.steps); len(p.notes) > room {
		p.notes, p.more = p.notes[:room], true
	}
}

// assignJob chooses a member for one queued job.
func assignJob(v *view.View, p *round, id string) {
	j := v.Jobs.ByID.Get(id)
	fl := p.candidates[j.Rec.Federation]
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
		p.full[class] = noCandidateMessage(decision)
		// A bucket event may have only one possible member: other jobs do not wait behind it.
		p.blocked[j.Rec.Federation] = p.blocked[j.Rec.Federation] || !j.Rec.BucketEvent
		p.wait(j, p.full[class])
		return
	}
	i := slices.IndexFunc(snapshot.Candidates, func(c delegation.Candidate) bool { return c.Place() == decision.Chosen })
	assignTo(v, p, j, fl, i, snapshot, decision)
}

// promisedTo enters the reserved capacity into the candidates, with that of this round.
func promisedTo(v *view.View, p *round, fl *Candidates) {
	for i := range fl.snapshot.Candidates {
		if cluster := fl.snapshot.Candidates[i].Cluster; fl.Members[i].Replica() {
			if _, ok := p.promised[cluster]; !ok {
				p.promised[cluster] = listOf(v.Jobs.Reserved.Get(cluster))
			}
			fl.snapshot.Candidates[i].Promised = promisesOf(p.promised[cluster])
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

// classOf names the jobs that the same members can take.
func classOf(j *record.Job) string {
	return strings.Join(append([]string{
		j.Federation, j.Cluster, j.Service, fmt.Sprint(j.Hops), fmt.Sprint(j.BucketEvent), strings.Join(j.Visited, ","),
	}, refusedAt(j)...), "\x00")
}

// noCandidateMessage says in one line why no member takes a job.
func noCandidateMessage(d delegation.Decision) string {
	whys := make([]string, len(d.Verdicts))
	for i, v := range d.Verdicts {
		whys[i] = fmt.Sprintf("%s %s", v.Place, v.Why)
	}
	return view.Shorten("no member can take it now; explain says more: "+strings.Join(whys, ", "), maxJobMessage)
}

// wait notes once in the record that no member takes the job, and why.
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

// assignTo enters an assignment into the round.
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
