package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// place is one replica of one federation, as it was at a revision of its record.
type place struct {
	uid    string
	member int
	rec    *record.Federation
	// rev is the revision of the federation's record.
	rev int64
	// gone is the member itself when it is none any more.
	gone *record.Member
}

func (p place) at() record.Member {
	if p.gone != nil {
		return *p.gone
	}
	return p.rec.Members[p.member]
}

// find resolves a service name as a caller means it: his own coordinator of that
// name, then any replica that he may see, last the kept result of a creation of
// his that failed. Several are a conflict that lists their clusters. A caller who has
// shown a service's own token means that one.
func (c *ControlPlane) find(caller identity.Caller, service, clusterID string) (p place, err error) {
	c.state.read(func(v *View) { p, err = v.find(caller, service, clusterID) })
	return p, err
}

func (v *View) find(caller identity.Caller, service, clusterID string) (place, error) {
	if caller.Service != "" {
		return v.findOwn(caller, service, clusterID)
	}
	var own, other, results []place
	for uid := range v.named[service] {
		f := v.federations[uid]
		if f.rec.Phase == record.PhaseDeleting || !caller.MayRead(f.rec.Owner, f.rec.Visibility, f.rec.AllowedUsers) {
			continue
		}
		for i, m := range f.rec.Members {
			if !m.Replica() || m.ServiceName != service || clusterID != "" && m.ClusterID != clusterID {
				continue
			}
			p := place{uid: uid, member: i, rec: f.rec, rev: f.rev}
			switch {
			case f.rec.Phase.Result():
				results = append(results, p)
			case m.Coordinator && f.rec.Owner == caller.Subject:
				own = append(own, p)
			default:
				other = append(other, p)
			}
		}
	}
	for _, found := range [][]place{own, other} {
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return place{}, ambiguous(service, found)
		}
	}
	if len(results) > 0 {
		return slices.MaxFunc(results, func(a, b place) int {
			return cmp.Or(a.rec.ChangedAt.Compare(b.rec.ChangedAt.Time), cmp.Compare(b.member, a.member))
		}), nil
	}
	return place{}, notFound(fmt.Sprintf("there is no service %q", service))
}

func ambiguous(service string, found []place) error {
	var clusters []string
	for _, p := range found {
		clusters = append(clusters, p.at().ClusterID)
	}
	slices.Sort(clusters)
	return &Error{
		Code: CodeConflict, Candidates: slices.Compact(clusters),
		Message: fmt.Sprintf("service %q is on several clusters; say which with ?cluster_id=", service),
	}
}

func notFound(message string) *Error { return &Error{Code: CodeNotFound, Message: message} }

// findOwn finds the replica whose token the caller has shown: it is good for no other.
func (v *View) findOwn(caller identity.Caller, service, clusterID string) (place, error) {
	for uid := range v.named[service] {
		f := v.federations[uid]
		i := memberOf(f.rec.Members, caller.Service)
		if i < 0 || f.rec.Phase == record.PhaseDeleting || f.rec.Phase.Result() {
			continue
		}
		if m := f.rec.Members[i]; m.ServiceName == service && (clusterID == "" || m.ClusterID == clusterID) {
			return place{uid: uid, member: i, rec: f.rec, rev: f.rev}, nil
		}
	}
	return place{}, &Error{Code: CodeUnauthenticated, Message: "the token is not that of a service of this name"}
}

// Replicas shows a federation as the named replica sees it.
func (c *ControlPlane) Replicas(ctx context.Context, caller identity.Caller, service, clusterID string) (*Replicas, error) {
	if err := c.fresh(ctx); err != nil {
		return nil, err
	}
	return c.view(caller, service, clusterID)
}

// view is Replicas as the state knows it, at one revision.
func (c *ControlPlane) view(caller identity.Caller, service, clusterID string) (*Replicas, error) {
	var view Replicas
	var err error
	c.state.read(func(v *View) {
		var p place
		if p, err = v.find(caller, service, clusterID); err == nil {
			view = asSeen(v.present(p.rec, p.rev).Federation, p.member)
			view.StreamRevision = v.revision
			if t := v.refreshToken(p.rec, c.cfg.RefreshTokenMaxAge); t.State != TokenNone && caller.MayChange(p.rec.Owner) {
				view.RefreshToken = &t
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return &view, nil
}

// asSeen is a federation as one of its members sees it.
func asSeen(f Federation, self int) Replicas {
	out := Replicas{Federation: f, Self: self}
	for _, e := range f.Edges {
		if e[0] == self {
			out.Sees = append(out.Sees, e[1])
		}
	}
	return out
}

// Federations lists what the caller may see, by owner and group_id. Results of
// creations that failed are among them until they are forgotten, and those that
// are being deleted until their last tombstone is acknowledged.
func (c *ControlPlane) Federations(ctx context.Context, caller identity.Caller) ([]Federation, error) {
	if err := c.fresh(ctx); err != nil {
		return nil, err
	}
	out := []Federation{}
	c.state.read(func(v *View) {
		for _, f := range v.federations {
			if caller.MayRead(f.rec.Owner, f.rec.Visibility, f.rec.AllowedUsers) {
				out = append(out, v.present(f.rec, f.rev).Federation)
			}
		}
	})
	slices.SortFunc(out, func(a, b Federation) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.GroupID, b.GroupID), cmp.Compare(a.UID, b.UID))
	})
	return out, nil
}

// Federation finds one by its uid or by its group_id: the caller's own first, a
// living one before a result.
func (c *ControlPlane) Federation(ctx context.Context, caller identity.Caller, ref string) (*Federation, error) {
	if err := c.fresh(ctx); err != nil {
		return nil, err
	}
	rank := func(f *record.Federation) int {
		switch {
		case f.UID == ref:
			return 0
		case f.Phase == record.PhaseDeleting:
			return 4
		case f.Phase.Result():
			return 3
		case f.Owner == caller.Subject:
			return 1
		}
		return 2
	}
	var best *record.Federation
	var out Federation
	c.state.read(func(v *View) {
		var rev int64
		for _, of := range v.federations {
			f := of.rec
			if f.UID != ref && f.GroupID != ref || !caller.MayRead(f.Owner, f.Visibility, f.AllowedUsers) {
				continue
			}
			if best == nil || rank(f) < rank(best) || rank(f) == rank(best) && f.ChangedAt.After(best.ChangedAt.Time) {
				best, rev = f, of.rev
			}
		}
		if best != nil {
			out = v.present(best, rev).Federation
			if caller.MayChange(best.Owner) {
				out.RefreshToken = v.tokenOf(best, c.cfg.RefreshTokenMaxAge)
			}
		}
	})
	if best == nil {
		return nil, notFound(fmt.Sprintf("there is no federation %q", ref))
	}
	return &out, c.storageOf(ctx, best, &out)
}

// storageOf fills in where the inputs and outputs of every replica are, as
// provider:path. A provider that is the cluster's own means that cluster's MinIO.
func (c *ControlPlane) storageOf(ctx context.Context, rec *record.Federation, fed *Federation) error {
	s, err := c.submitted(ctx, rec)
	if errors.Is(err, store.ErrNotFound) {
		return nil // a result, or deleted meanwhile
	}
	if err != nil {
		return crossing(err)
	}
	for i := range fed.Members {
		if fed.Members[i].Status == nil {
			continue
		}
		for _, in := range s.Input {
			fed.Members[i].Inputs = append(fed.Members[i].Inputs, in.Provider+":"+in.Path)
		}
		for _, out := range s.Output {
			fed.Members[i].Outputs = append(fed.Members[i].Outputs, out.Provider+":"+out.Path)
		}
	}
	return nil
}
