package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
)

// edit turns the service as it was submitted last into what it shall be. It
// answers false when nothing is to be changed.
type edit func(s *oscar.Service) (*oscar.Service, bool, error)

// ChangeService replaces the definition of a federation; members that differ are
// part of the same change. It is one transaction over the whole topology, and
// converges replica by replica: one that fails takes no healthy one down.
func (c *ControlPlane) ChangeService(ctx context.Context, caller identity.Caller, req ChangeRequest) (*ChangeResult, error) {
	id := change{caller: caller, service: req.Service.Name, clusterID: req.Service.ClusterID, requestID: req.RequestID, ifMatch: req.IfMatch, plan: req.Plan, wait: req.Wait, whole: true}
	req.Service.TakeRefreshToken()
	return c.change(ctx, id, replaceBy(req.Service))
}

// replaceBy is the edit that puts another definition in the place of the old one:
// empty secrets are unchanged, and paths that an answer showed in their normal form
// are as they were.
func replaceBy(service *oscar.Service) edit {
	return func(old *oscar.Service) (*oscar.Service, bool, error) {
		s := service.Clone()
		s.RestorePaths(old)
		_, before := oscar.SplitSecrets(old)
		public, now := oscar.SplitSecrets(s)
		patch, err := oscar.KeepSecrets(public, now, before)
		if err != nil {
			return nil, false, err
		}
		s, err = merge(public, patch)
		return s, err == nil && !oscar.Equal(s, old), err
	}
}

// ChangeReplicas adds, removes and replaces members.
func (c *ControlPlane) ChangeReplicas(ctx context.Context, caller identity.Caller, service string, req ReplicasRequest) (*ChangeResult, error) {
	id := change{
		caller: caller, service: service, clusterID: req.ClusterID, requestID: req.RequestID, ifMatch: req.IfMatch, wait: req.Wait,
		removes: len(req.Add)+len(req.Replace) == 0,
	}
	return c.change(ctx, id, func(old *oscar.Service) (*oscar.Service, bool, error) {
		s := old.Clone()
		members, err := req.apply(federationOf(s).Members)
		if err != nil {
			return nil, false, err
		}
		s.Federation.Members = members
		return s, !oscar.Equal(s, old), nil
	})
}

// apply gives the members after the request, in a stable order.
func (r ReplicasRequest) apply(members []oscar.Member) ([]oscar.Member, error) {
	at := func(list []oscar.Member, m oscar.Member) int {
		return slices.IndexFunc(list, func(o oscar.Member) bool { return o.Key() == m.Key() })
	}
	out := slices.Clone(members)
	if r.RemoveAll {
		out = nil
	}
	for _, m := range r.Remove {
		if i := at(out, m); i >= 0 {
			out = slices.Delete(out, i, i+1)
		}
	}
	for _, p := range r.Replace {
		i := at(out, p.From)
		if i < 0 {
			return nil, notFound(fmt.Sprintf("%s/%s is not a member; GET lists those that are", p.From.ClusterID, p.From.ServiceName))
		}
		out[i] = p.To
	}
	for _, m := range r.Add {
		if i := at(out, m); i < 0 {
			out = append(out, m)
		} else if !sameMember(out[i], m) {
			return nil, &Error{Code: CodeAlreadyExists, Message: fmt.Sprintf(
				"%s/%s is a member already, with other settings; use PUT to change them", m.ClusterID, m.ServiceName)}
		}
	}
	return out, nil
}

// sameMember compares two members' settings.
func sameMember(a, b oscar.Member) bool {
	x, y := &oscar.Service{Federation: &oscar.Federation{Members: []oscar.Member{a}}}, &oscar.Service{Federation: &oscar.Federation{Members: []oscar.Member{b}}}
	x.Federation.Members[0].Type, y.Federation.Members[0].Type = a.Kind(), b.Kind()
	return oscar.Equal(x, y)
}

// change is who wants what changed, and how patient he is.
type change struct {
	caller    identity.Caller
	service   string
	clusterID string
	requestID string
	ifMatch   int64
	// plan is the digest of the plan that the change must be.
	plan string
	wait time.Duration
	// whole says that the definition is replaced, which only its coordinator takes.
	whole bool
	// removes says that members go and nothing else: that is possible when etcd is
	// short of space.
	removes bool
}

// change edits a federation until the edit is committed, refused or needless.
// Changes of others that come between are edited anew, unless If-Match forbids it.
func (c *ControlPlane) change(ctx context.Context, id change, fn edit) (*ChangeResult, error) {
	began := time.Now()
	if id.requestID == "" {
		id.requestID = newUID()
	}
	for {
		p, err := c.turn(ctx, id, fn)
		if errors.Is(err, errStale) || errors.Is(err, errFence) {
			if (id.ifMatch != 0 || id.plan != "") && errors.Is(err, errStale) {
				return nil, conflictOf(p.rec)
			}
			continue
		}
		if err != nil {
			return nil, crossing(outdated(id.plan, err))
		}
		return c.awaitChange(ctx, id, p.uid, id.wait-time.Since(began))
	}
}

// turn makes one attempt, once no other change waits for votes.
func (c *ControlPlane) turn(ctx context.Context, id change, fn edit) (place, error) {
	for {
		changed := c.state.watch()
		if err := c.fresh(ctx); err != nil {
			return place{}, err
		}
		p, _, err := c.changeable(id)
		if err != nil {
			return p, err
		}
		end, err := c.turns.take(ctx, p.uid)
		if err != nil {
			return p, err
		}
		p, busy, err := c.changeable(id) // it may have changed while we waited
		if err == nil && !busy {
			err = c.tryChange(ctx, id, p, fn)
		}
		end()
		if err != nil || !busy {
			return p, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return p, context.Cause(ctx)
		}
	}
}

// changeable finds the federation. busy says that another change waits for votes.
func (c *ControlPlane) changeable(id change) (p place, busy bool, err error) {
	p, err = c.find(id.caller, id.service, id.clusterID)
	if err != nil {
		return p, false, err
	}
	f := p.rec
	at := f.Coordinator()
	switch {
	case f.Phase.Result() || at == nil:
		return p, false, notFound(fmt.Sprintf("there is no service %q", id.service))
	case !id.caller.MayChange(f.Owner):
		return p, false, &Error{Code: CodeForbidden, Message: fmt.Sprintf("service %q can be changed by its owner only", id.service)}
	case id.whole && !p.at().Coordinator:
		return p, false, &Error{Code: CodeConflict, Candidates: []string{at.ClusterID}, Message: fmt.Sprintf(
			"service %q is a member of federation %q; change its coordinator %s/%s", id.service, f.GroupID, at.ClusterID, at.ServiceName)}
	case f.Phase != record.PhaseReady:
		return p, false, &Error{Code: CodeConflict, Message: fmt.Sprintf("federation %q is %s; wait for its outcome, or delete it", f.GroupID, f.Phase)}
	case id.ifMatch != 0 && p.rev != id.ifMatch:
		return p, false, conflictOf(f)
	}
	return p, f.Change != nil, nil
}

func conflictOf(f *record.Federation) error {
	return &Error{Code: CodeConflict, Message: fmt.Sprintf("federation %q has been changed since; GET it again and decide anew", f.GroupID)}
}
