package decide

import (
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// KeepHistory is how many generations before the present one can be looked at.
const KeepHistory = 10

// Proposal is a prepared change: the next record of the federation, and the specs and
// neighbours of each replica.
type Proposal struct {
	next  record.Federation
	specs map[string]string
	sees  map[string][]string
	// Data and Jobs are the owner's orders for the members that are removed.
	Data, Jobs string
	// Adopted are the federations that end with the change, and whose replicas live on in this one.
	Adopted []*record.Federation
}

// decideChange commits a change when every added member has voted yes, and refuses it on a no
// or at its deadline. A refused change does not touch the present members.
func decideChange(s view.Situation) Decision {
	yes, no := 0, 0
	for _, r := range s.Adding {
		switch v := r.Vote(); {
		case v == nil:
		case v.Answer == record.VoteYes:
			yes++
		default:
			no++
		}
	}
	switch {
	case s.Fed.Change.Epoch != s.Epoch:
		// In the lost history this change may have been made or refused. Its request was
		// answered long ago; the owner sends it again.
		return RefuseChange(s)
	case no == 0 && yes == len(s.Adding):
		d := ApplyChange(s, proposalOf(s.Fed))
		d.Request = s.Fed.Change.Request
		return d
	case no > 0 || !s.Now.Before(changeDeadline(s)):
		return RefuseChange(s)
	}
	return Decision{Again: changeDeadline(s)}
}

// changeDeadline is when votes for a change come too late, by this instance's clock.
func changeDeadline(s view.Situation) time.Time {
	return gate.Due(s.Fed.Change.ProposedAt, s.Fed.Change.Deadline, s.ChangeSince)
}

// proposalOf is the proposal of a change that waits in the federation's record.
func proposalOf(f record.Federation) Proposal {
	c := f.Change
	next := f
	next.Epoch = c.Epoch
	next.Generation++
	next.RequestID, next.By, next.Topology, next.Delegation, next.Drift = c.RequestID, c.By, c.Topology, c.Delegation, c.Drift
	next.ReschedulerThreshold = c.ReschedulerThreshold
	next.Visibility, next.AllowedUsers, next.Prefetch, next.Members = c.Visibility, c.AllowedUsers, c.Prefetch, c.Members
	next.Parts, next.SecretsLost = c.Parts, false // it was refused otherwise
	if c.Unexposed {
		next.RunState = ""
	}
	return NewProposal(next, c.Specs)
}

// NewProposal is a change to a federation as it will be, with the specs of its replicas by uid.
func NewProposal(next record.Federation, specs map[string]string) Proposal {
	next.Change, next.Refused = nil, nil
	p := Proposal{next: next, specs: specs, sees: map[string][]string{}}
	g := view.GraphOf(&next)
	for i, m := range next.Members {
		if m.Replica() {
			p.sees[m.UID] = view.Sees(g, i)
		}
	}
	return p
}

// ApplyChange is one transaction over the whole topology. Each member that stays and each that
// voted yes gets the new generation; each member that is removed becomes a tombstone and
// leaves.
func ApplyChange(s view.Situation, p Proposal) Decision {
	next := p.next
	next.ChangedAt = record.At(s.Now)
	next.Leaving = slices.Clone(s.Fed.Leaving)
	next.TokenRotation = rotation(&s.Fed, &next)
	for _, f := range p.Adopted {
		next.TokenRotation = max(next.TokenRotation, rotation(f, &next))
	}
	d := Decision{Step: StepChange, Fed: &next, Drop: []string{record.SecretsKey(s.Fed.UID, s.Fed.Generation)}}
	older := append([]int64{s.Fed.Generation}, s.Fed.Older(KeepHistory)...)
	if len(older) > KeepHistory {
		d.Drop = append(d.Drop, record.HistoryKey(s.Fed.UID, older[KeepHistory]))
		older = older[:KeepHistory]
	}
	next.Kept = nil
	if !slices.Equal(older, next.Older(KeepHistory)) {
		next.Kept = older
	}
	for _, r := range slices.Concat(s.Replicas, s.Adding) {
		if r.Desired == nil {
			continue
		}
		if view.MemberOf(next.Members, r.At.UID) < 0 {
			if r.Desired.Intent == record.IntentPrepare {
				d.Remove = append(d.Remove, removalOf(r, s)) // never applied: nothing is there
				continue
			}
			t := tombstoneFor(s, r, record.CauseRemoved, next.RequestID)
			t.Data, t.Jobs = p.Data, p.Jobs
			d.Put = append(d.Put, PlacedAt(r, t))
			if removal := s.Removing[r.At.ClusterID]; removal == nil || !removal.Force {
				next.Leaving = append(next.Leaving, r.At)
			}
			continue
		}
		rec := *r.Desired
		rec.Advance(next.Epoch, next.Generation)
		rec.RequestID, rec.Drift, rec.Sees = next.RequestID, next.Drift, p.sees[r.At.UID]
		rec.RunState, rec.Paused = next.RunState, next.Halted()
		if spec, ok := p.specs[r.At.UID]; ok {
			rec.Spec = spec
		}
		if v := r.Vote(); rec.Intent == record.IntentPrepare && v != nil && v.Answer == record.VoteYes && r.Member < 0 {
			rec.Intent = record.IntentApply
		}
		rec.Deadline, rec.DeadlineS = nil, 0
		d.Put = append(d.Put, PlacedAt(r, &rec))
	}
	return d
}

// RefuseChange removes the prepare records of a change, and keeps the causes.
func RefuseChange(s view.Situation) Decision {
	c := s.Fed.Change
	next := s.Fed
	next.Change, next.ChangedAt = nil, record.At(s.Now)
	refused := &record.Refused{RequestID: c.RequestID, Members: slices.Clone(c.Members)}
	next.Refused = refused
	// Before the deadline a missing vote is no cause: another member has voted no.
	late := !s.Now.Before(changeDeadline(s))
	d := dropChange(s, Decision{Step: StepRefuseChange, Fed: &next, Request: c.Request})
	for i := range refused.Members {
		refused.Members[i].Rollback = &record.Rollback{State: record.RollbackKept}
	}
	for _, r := range s.Adding {
		i := view.MemberOf(refused.Members, r.At.UID)
		f := clusterGoes(s, r, record.OperationVote)
		if f == nil {
			f = refusals(r)
		}
		if f == nil && late {
			f = noVote(r)
		}
		refused.Members[i].Cause = f
		refused.Members[i].Rollback = &record.Rollback{State: record.RollbackNotCreated}
	}
	view.BoundSentences(refused.Members, 0)
	refused.Code, refused.Detail = string(abortCode(refused.Members)), FailureDetail(refused.Members)
	return d
}

// dropChange removes everything that a change that waits for votes has written.
func dropChange(s view.Situation, d Decision) Decision {
	d.Drop = append(d.Drop,
		record.HistoryKey(s.Fed.UID, s.Fed.Generation+1), record.SecretsKey(s.Fed.UID, s.Fed.Generation+1))
	for _, r := range s.Adding {
		d.Remove = append(d.Remove, removalOf(r, s))
	}
	for _, r := range s.Replicas {
		if spec, ok := s.Fed.Change.Specs[r.At.UID]; ok {
			d.Drop = append(d.Drop, record.SpecKey(r.At.ClusterID, spec))
		}
	}
	return d
}

// decideLeaving removes the acknowledged tombstones of removed members.
func decideLeaving(s view.Situation) Decision {
	next := s.Fed
	next.Leaving = nil
	d := Decision{Step: StepLeft, Fed: &next}
	part, _ := acknowledged(s.Leaving)
	for _, r := range s.Leaving {
		switch {
		case r.Desired == nil:
			continue
		case slices.ContainsFunc(part, func(p view.ReplicaState) bool { return p.At.UID == r.At.UID }):
			d.Remove = append(d.Remove, removalOf(r, s))
		default:
			next.Leaving = append(next.Leaving, r.At)
		}
	}
	if len(d.Remove) == 0 && !slices.ContainsFunc(s.Leaving, func(r view.ReplicaState) bool { return r.Abandoned }) {
		return Decision{}
	}
	return d
}
