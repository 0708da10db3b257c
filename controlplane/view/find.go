package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
)

// MemberRef is one replica of one federation, as it was at a revision of its record.
type MemberRef struct {
	UID    string
	Member int
	Rec    *record.Federation
	// Rev is the revision of the federation's record.
	Rev int64
	// Gone is the member itself when it has left the federation.
	Gone *record.Member
}

// At is the member.
func (p MemberRef) At() record.Member {
	if p.Gone != nil {
		return *p.Gone
	}
	return p.Rec.Members[p.Member]
}

// Find resolves a service name for a caller who uses the service: his own coordinator of that name, then his own
// member, so that nobody else's service hides it, then any replica that he may see, then the kept result of a failed
// creation: of that service, or else one that named it as a member.
// Several matches of one federation are its coordinator, if that is among them; others are a conflict that lists
// their clusters. A caller with a service's own token finds only that service.
func (s *State) Find(caller identity.Caller, service, clusterID string) (p MemberRef, err error) {
	s.Read(func(v *View) { p, err = v.find(caller, service, clusterID, false) })
	return p, err
}

// FindWithResult is Find for a caller who asks what became of a service, or changes it: his own creation that failed
// comes before services of others.
func (s *State) FindWithResult(caller identity.Caller, service, clusterID string) (p MemberRef, err error) {
	s.Read(func(v *View) { p, err = v.FindWithResult(caller, service, clusterID) })
	return p, err
}

// FindWithResult is State.FindWithResult in a view that is being read.
func (v *View) FindWithResult(caller identity.Caller, service, clusterID string) (MemberRef, error) {
	return v.find(caller, service, clusterID, true)
}

func (v *View) find(caller identity.Caller, service, clusterID string, withResult bool) (MemberRef, error) {
	if caller.Service != "" {
		return v.findOwn(caller, service, clusterID)
	}
	var own, ownMember, ownFailed, other, failed, failedWith []MemberRef
	var elsewhere []string // clusters of services of that name
	for uid := range v.Named.Of(service) {
		f := v.Federations.m[uid]
		if f.Rec.Phase == record.PhaseDeleting || !caller.MayRead(f.Rec.Owner, f.Rec.Visibility, f.Rec.AllowedUsers) {
			continue
		}
		for i, m := range f.Rec.Members {
			if !m.Replica() || m.ServiceName != service {
				continue
			}
			if clusterID != "" && m.ClusterID != clusterID {
				if !f.Rec.Phase.Result() {
					elsewhere = append(elsewhere, m.ClusterID)
				}
				continue
			}
			p := MemberRef{UID: uid, Member: i, Rec: f.Rec, Rev: f.Rev}
			switch {
			case f.Rec.Phase.Result() && m.Coordinator && withResult && f.Rec.Owner == caller.Subject:
				ownFailed = append(ownFailed, p)
			case f.Rec.Phase.Result() && m.Coordinator:
				failed = append(failed, p)
			case f.Rec.Phase.Result():
				failedWith = append(failedWith, p)
			case m.Coordinator && f.Rec.Owner == caller.Subject:
				own = append(own, p)
			case f.Rec.Owner == caller.Subject:
				ownMember = append(ownMember, p)
			default:
				other = append(other, p)
			}
		}
	}
	for _, found := range [][]MemberRef{own, ownMember, newest(ownFailed), other, newest(failed), newest(failedWith)} {
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			if p, ok := coordinatorOf(found); ok {
				return p, nil
			}
			return MemberRef{}, Ambiguous(service, found)
		}
	}
	if len(elsewhere) > 0 {
		slices.Sort(elsewhere)
		return MemberRef{}, fault.NotFound(fmt.Sprintf("there is no service %q on cluster %q; there is one on: %s",
			service, clusterID, strings.Join(slices.Compact(elsewhere), ", ")))
	}
	return MemberRef{}, NoService(service, "")
}

// newest is the result that was kept last, if there is one.
func newest(results []MemberRef) []MemberRef {
	if len(results) == 0 {
		return nil
	}
	return []MemberRef{slices.MaxFunc(results, func(a, b MemberRef) int {
		return cmp.Or(a.Rec.ChangedAt.Compare(b.Rec.ChangedAt.Time), cmp.Compare(b.Member, a.Member))
	})}
}

// coordinatorOf is the coordinator among replicas, when all are of one federation.
func coordinatorOf(found []MemberRef) (p MemberRef, ok bool) {
	for _, f := range found {
		if f.UID != found[0].UID {
			return MemberRef{}, false
		}
		if f.At().Coordinator {
			p, ok = f, true
		}
	}
	return p, ok
}

// NoService is the error for a service that is not there. phase is that of the federation that was found under its
// name, empty for none: of one that failed or goes the caller is told so.
func NoService(service string, phase record.Phase) error {
	message := fmt.Sprintf("there is no service %q", service)
	why := "; oscarfed describe " + service + " says why, and it can be created again"
	switch phase {
	case record.PhaseAborted:
		message += ": its creation was refused" + why
	case record.PhaseRolledBack:
		message += ": its creation failed and was rolled back" + why
	case record.PhaseRollingBack:
		message += ": its creation failed and is being rolled back; oscarfed describe " + service + " says why"
	case record.PhaseDeleting:
		message += " any more: it is being deleted"
	}
	return fault.NotFound(message)
}

// FederationNamed finds one that a caller may see by its uid or by its group_id: the caller's own
// first, of his own and of others' a living one before a result. Its Rec is nil for none.
func (v *View) FederationNamed(caller identity.Caller, ref string) (best Versioned[record.Federation]) {
	rank := func(f *record.Federation) int {
		switch {
		case f.UID == ref:
			return 0
		case f.Phase == record.PhaseDeleting:
			return 5
		case f.Owner == caller.Subject && !f.Phase.Result():
			return 1
		case f.Owner == caller.Subject:
			return 2
		case !f.Phase.Result():
			return 3
		}
		return 4
	}
	for _, of := range v.Federations.m {
		f := of.Rec
		if f.UID != ref && f.GroupID != ref || !caller.MayRead(f.Owner, f.Visibility, f.AllowedUsers) {
			continue
		}
		if best.Rec == nil || rank(f) < rank(best.Rec) || rank(f) == rank(best.Rec) && f.ChangedAt.After(best.Rec.ChangedAt.Time) {
			best = of
		}
	}
	return best
}

// Ambiguous is the error for a name that several replicas have: it lists their clusters.
func Ambiguous(service string, found []MemberRef) error {
	var clusters []string
	for _, p := range found {
		clusters = append(clusters, p.At().ClusterID)
	}
	slices.Sort(clusters)
	return &fault.Error{
		Code: fault.CodeConflict, Candidates: slices.Compact(clusters),
		Message: fmt.Sprintf("service %q is on several clusters; say which with ?cluster_id=", service),
	}
}

// findOwn finds the replica whose token the caller has sent. That token is good for no other.
func (v *View) findOwn(caller identity.Caller, service, clusterID string) (MemberRef, error) {
	for uid := range v.Named.Of(service) {
		f := v.Federations.m[uid]
		i := MemberOf(f.Rec.Members, caller.Service)
		if i < 0 || f.Rec.Phase == record.PhaseDeleting || f.Rec.Phase.Result() {
			continue
		}
		if m := f.Rec.Members[i]; m.ServiceName == service && (clusterID == "" || m.ClusterID == clusterID) {
			return MemberRef{UID: uid, Member: i, Rec: f.Rec, Rev: f.Rev}, nil
		}
	}
	return MemberRef{}, &fault.Error{Code: fault.CodeUnauthenticated, Message: "the token is not that of a service of this name"}
}

// AsSeen is a federation as one of its members sees it.
func AsSeen(f Federation, self int) Replicas {
	out := Replicas{Federation: f, Self: self}
	for _, e := range f.Edges {
		if e[0] == self {
			out.Sees = append(out.Sees, e[1])
		}
	}
	return out
}
