package controlplane

import (
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// keepHistory is how many generations before the present one can be looked at.
const keepHistory = 10

// proposal is a change made ready: the federation as it will be, and what each
// kept replica is to be asked.
type proposal struct {
	next  record.Federation
	specs map[string]string
	sees  map[string][]string
	// data and jobs are the owner's orders for the members that go.
	data, jobs string
}

// decideChange commits a change when every added member has voted yes, and drops
// it on a no or at its deadline. The members that are there are not touched by a
// change that is refused.
func decideChange(s situation) decision {
	yes, no := 0, 0
	for _, r := range s.adding {
		switch v := r.vote(); {
		case v == nil:
		case v.Answer == record.VoteYes:
			yes++
		default:
			no++
		}
	}
	switch {
	case s.fed.Change.Epoch != s.epoch:
		// In the history that was lost it may have been made, or refused. Who asked has
		// long gone; he asks again.
		return refuseChange(s)
	case no == 0 && yes == len(s.adding):
		d := applyChange(s, proposalOf(s.fed))
		d.request = s.fed.Change.Request
		return d
	case no > 0 || !s.now.Before(changeDeadline(s)):
		return refuseChange(s)
	}
	return decision{again: changeDeadline(s)}
}

// changeDeadline is when the votes of a change are too late here.
func changeDeadline(s situation) time.Time {
	return due(s.fed.Change.ProposedAt, s.fed.Change.Deadline, s.changeSince)
}

// proposalOf is the proposal of a change that waits in the federation's record.
func proposalOf(f record.Federation) proposal {
	c := f.Change
	next := f
	next.Epoch = c.Epoch
	next.Generation++
	next.RequestID, next.By, next.Topology, next.Delegation, next.Drift = c.RequestID, c.By, c.Topology, c.Delegation, c.Drift
	next.ReschedulerThreshold = c.ReschedulerThreshold
	next.Visibility, next.AllowedUsers, next.Prefetch, next.Members = c.Visibility, c.AllowedUsers, c.Prefetch, c.Members
	return newProposal(next, c.Specs)
}

func newProposal(next record.Federation, specs map[string]string) proposal {
	next.Change, next.Refused = nil, nil
	p := proposal{next: next, specs: specs, sees: map[string][]string{}}
	g := graphOf(&next)
	for i, m := range next.Members {
		if m.Replica() {
			p.sees[m.UID] = sees(g, i)
		}
	}
	return p
}

// applyChange is one transaction over the whole topology: everybody who stays, and
// everybody who has voted yes, gets the new generation; who is not in it any more
// becomes a tombstone and leaves.
func applyChange(s situation, p proposal) decision {
	next := p.next
	next.ChangedAt = record.At(s.now)
	next.Leaving = slices.Clone(s.fed.Leaving)
	next.TokenRotation = s.fed.TokenRotation
	if narrowed(&s.fed, &next) {
		next.TokenRotation++
	}
	d := decision{name: "change", fed: &next, drop: []string{record.SecretsKey(s.fed.UID, s.fed.Generation)}}
	if old := s.fed.Generation - keepHistory; old > 0 {
		d.drop = append(d.drop, record.HistoryKey(s.fed.UID, old))
	}
	for _, r := range slices.Concat(s.replicas, s.adding) {
		if r.desired == nil {
			continue
		}
		if memberOf(next.Members, r.at.UID) < 0 {
			if r.desired.Intent == record.IntentPrepare {
				d.remove = append(d.remove, r.removal(s)) // never applied: nothing is there
				continue
			}
			t := s.farewell(r, record.CauseRemoved, next.RequestID)
			t.Data, t.Jobs = p.data, p.jobs
			d.put = append(d.put, r.place(t))
			if removal := s.removing[r.at.ClusterID]; removal == nil || !removal.Force {
				next.Leaving = append(next.Leaving, r.at)
			}
			continue
		}
		rec := *r.desired
		rec.Advance(next.Epoch, next.Generation)
		rec.RequestID, rec.Drift, rec.Sees = next.RequestID, next.Drift, p.sees[r.at.UID]
		if spec, ok := p.specs[r.at.UID]; ok {
			rec.Spec = spec
		}
		if v := r.vote(); rec.Intent == record.IntentPrepare && v != nil && v.Answer == record.VoteYes && r.member < 0 {
			rec.Intent = record.IntentApply
		}
		rec.Deadline, rec.DeadlineS = nil, 0
		d.put = append(d.put, r.place(&rec))
	}
	return d
}

// refuseChange takes the prepare records of a change away, and keeps why.
func refuseChange(s situation) decision {
	c := s.fed.Change
	next := s.fed
	next.Change, next.ChangedAt = nil, record.At(s.now)
	refused := &record.Refused{RequestID: c.RequestID, Members: slices.Clone(c.Members)}
	next.Refused = refused
	// Before the deadline silence is no cause: a no has come first.
	late := !s.now.Before(changeDeadline(s))
	d := dropChange(s, decision{name: "refuse_change", fed: &next, request: c.Request})
	for i := range refused.Members {
		refused.Members[i].Rollback = &record.Rollback{State: record.RollbackKept}
	}
	for _, r := range s.adding {
		i := memberOf(refused.Members, r.at.UID)
		f := s.clusterGoes(r, "vote")
		if f == nil {
			f = refusals(r)
		}
		if f == nil && late {
			f = noVote(r)
		}
		refused.Members[i].Cause = f
		refused.Members[i].Rollback = &record.Rollback{State: record.RollbackNotCreated}
	}
	boundSentences(refused.Members)
	refused.Code, refused.Detail = string(abortCode(refused.Members)), failureDetail(refused.Members)
	return d
}

// dropChange takes away everything that a change which waits for votes has written.
func dropChange(s situation, d decision) decision {
	d.drop = append(d.drop,
		record.HistoryKey(s.fed.UID, s.fed.Generation+1), record.SecretsKey(s.fed.UID, s.fed.Generation+1))
	for _, r := range s.adding {
		d.remove = append(d.remove, r.removal(s))
	}
	for _, r := range s.replicas {
		if spec, ok := s.fed.Change.Specs[r.at.UID]; ok {
			d.drop = append(d.drop, record.SpecKey(r.at.ClusterID, spec))
		}
	}
	return d
}

// decideLeaving removes the acknowledged tombstones of removed members.
func decideLeaving(s situation) decision {
	next := s.fed
	next.Leaving = nil
	d := decision{name: "left", fed: &next}
	part, _ := acknowledged(s.leaving)
	for _, r := range s.leaving {
		switch {
		case r.desired == nil:
			continue
		case slices.ContainsFunc(part, func(p replicaState) bool { return p.at.UID == r.at.UID }):
			d.remove = append(d.remove, r.removal(s))
		default:
			next.Leaving = append(next.Leaving, r.at)
		}
	}
	if len(d.remove) == 0 && !slices.ContainsFunc(s.leaving, func(r replicaState) bool { return r.abandoned }) {
		return decision{}
	}
	return d
}
