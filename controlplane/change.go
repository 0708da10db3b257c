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

// edit turns the service as it was submitted last, with its secrets, into what it
// shall be.
type edit func(s *oscar.Service) (*oscar.Service, error)

// ChangeService replaces the definition of a federation; members that differ are
// part of the same change. It is one transaction over the whole topology, and
// converges replica by replica: one that fails takes no healthy one down.
func (c *ControlPlane) ChangeService(ctx context.Context, caller identity.Caller, req ChangeRequest) (*ChangeResult, error) {
	id := change{
		caller: caller, service: req.Service.Name, clusterID: req.Service.ClusterID, ifMatch: req.IfMatch, plan: req.Plan, wait: req.Wait,
		claim: claimOf(caller, req.Repeat, requestID(req.RequestID)), whole: true, token: offered(caller, req.Service.TakeRefreshToken()),
	}
	if id.token.token != "" {
		if err := checkRefreshToken(id.token.token, refreshTokenPath); err != nil {
			return nil, err
		}
	}
	return c.change(ctx, id, replaceBy(req.Service))
}

// replaceBy is the edit that puts another definition in the place of the old one:
// empty secrets are unchanged, and what an answer filled in or showed in its normal
// form is as it was.
func replaceBy(service *oscar.Service) edit {
	return func(old *oscar.Service) (*oscar.Service, error) {
		s := service.Clone()
		s.RestorePaths(old)
		s.RestoreDefaultMinIO(old)
		// What a client reads and sends back, and what is not its to choose.
		s.Owner, s.Token, s.Namespace = old.Owner, old.Token, old.Namespace
		_, before := oscar.SplitSecrets(old)
		public, now := oscar.SplitSecrets(s)
		patch, err := oscar.KeepSecrets(public, now, before)
		if err != nil {
			return nil, err
		}
		return merge(public, patch)
	}
}

// ChangeReplicas adds, removes and replaces members.
func (c *ControlPlane) ChangeReplicas(ctx context.Context, caller identity.Caller, service string, req ReplicasRequest) (*ChangeResult, error) {
	id := change{
		caller: caller, service: service, clusterID: req.ClusterID, ifMatch: req.IfMatch, wait: req.Wait,
		claim: claimOf(caller, req.Repeat, requestID(req.RequestID)), removes: len(req.Add)+len(req.Replace) == 0,
		data: req.Data, jobs: req.Jobs, hurries: req.names, submitted: req.submitted(),
	}
	id.claim.takesAway = id.removes
	return c.change(ctx, id, func(old *oscar.Service) (*oscar.Service, error) {
		s := old.Clone()
		members, err := req.apply(federationOf(s).Members)
		if err != nil {
			return nil, err
		}
		s.Federation.Members = members
		return s, nil
	})
}

// names says whether the request removes a member, also one that leaves already.
func (r ReplicasRequest) names(m record.Member) bool {
	return r.RemoveAll || slices.ContainsFunc(r.Remove, func(o oscar.Member) bool {
		return o.Replica() && o.ClusterID == m.ClusterID && o.ServiceName == m.ServiceName
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
	claim     claim
	ifMatch   int64
	// plan is the digest of the plan that the change must be.
	plan string
	wait time.Duration
	// whole says that the definition is replaced, which only its coordinator takes.
	whole bool
	// token is the refresh token that came with it, and is kept from the transaction on
	// that accepts the change: its owner may always give it, also with a change that is
	// then refused by a vote.
	token offeredToken
	// removes says that members go and nothing else: that is possible when etcd is
	// short of space, and they are waited for, too. data and jobs are the orders for
	// them, hurries whom of those that leave already they concern as well.
	removes    bool
	data, jobs string
	hurries    func(record.Member) bool
	submitted  submitted
	// resolve is the side that a person takes in a difference; then what is held does
	// not stand in the way.
	resolve *resolution
}

// requestID is the id of a request, chosen when it has none.
func requestID(given string) string {
	if given == "" {
		return newUID()
	}
	return given
}

// attempt is a change that was committed, or that waits for votes.
type attempt struct {
	place
	// generation is the one that the change makes, or the present one when there
	// was nothing to change.
	generation int64
	votes      bool
}

// change edits a federation until the edit is committed, refused or needless.
// Changes of others that come between are edited anew, unless If-Match forbids it.
func (c *ControlPlane) change(ctx context.Context, id change, fn edit) (*ChangeResult, error) {
	began, tries := time.Now(), newRetries()
	left := func() time.Duration { return id.wait - time.Since(began) }
	for {
		r, err := c.repeated(ctx, id.claim)
		if err != nil {
			return nil, crossing(err)
		}
		if r != nil {
			res, err := c.again(ctx, id, r, left())
			return res, crossing(err)
		}
		a, err := c.turn(ctx, id, fn)
		stale := errors.Is(err, errStale)
		if stale && (id.ifMatch != 0 || id.plan != "") {
			stale, err = false, conflictOf(a.rec)
		}
		// What is in the way may have been done by the same request.
		if stale || errors.Is(err, errAccepted) || errors.Is(err, errFence) || c.awaitKeys(ctx, err, began) || err != nil && c.knows(ctx, id.claim) {
			if err := tries.next(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, crossing(outdated(id.plan, err))
		}
		res, err := c.awaitChange(ctx, id, a, left())
		if err != nil {
			return nil, crossing(err)
		}
		return c.withRemoved(ctx, res, a.place, left()), nil
	}
}

// knows says whether the same request is known to have been accepted.
func (c *ControlPlane) knows(ctx context.Context, q claim) bool {
	r, err := c.repeated(ctx, q)
	return err == nil && r != nil
}

// turn makes one attempt, once no other change waits for votes.
func (c *ControlPlane) turn(ctx context.Context, id change, fn edit) (attempt, error) {
	w := c.state.waiters.add(subject{service: id.service})
	defer w.drop()
	for {
		if err := c.fresh(ctx); err != nil {
			return attempt{}, err
		}
		p, _, err := c.changeable(id)
		if err != nil {
			return attempt{place: p}, err
		}
		end, err := c.turns.take(ctx, p.uid)
		if err != nil {
			return attempt{place: p}, behind(p.rec, err)
		}
		a := attempt{}
		p, busy, err := c.changeable(id) // it may have changed while we waited
		if err == nil && !busy {
			a, err = c.tryChange(ctx, id, p, fn)
		}
		end()
		a.place = p
		if err != nil || !busy {
			return a, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return a, behind(p.rec, context.Cause(ctx))
		}
	}
}

// behind is the error of a change whose time went by behind other changes of the
// federation, as that stood then; cause is what ended its wait.
func behind(f *record.Federation, cause error) error {
	if !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	what := fmt.Sprintf("other changes of federation %q come before this one", f.GroupID)
	if f.Change != nil {
		what = fmt.Sprintf("the change of federation %q by request %s waits for the votes of the clusters that it adds, until %s at most",
			f.GroupID, f.Change.RequestID, f.Change.Deadline.Format(time.RFC3339))
	}
	return &Error{Code: CodeUnavailable, RetryAfter: 5 * time.Second, Cause: cause, Message: "nothing was changed: " + what + "; send it again then"}
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
		return p, false, othersService(id.service)
	case id.whole && !p.at().Coordinator:
		return p, false, &Error{Code: CodeConflict, Candidates: []string{at.ClusterID}, Message: fmt.Sprintf(
			"service %q is a member of federation %q; change its coordinator %s/%s", id.service, f.GroupID, at.ClusterID, at.ServiceName)}
	case record.Strange(f) != "":
		return p, false, newerVersion(fmt.Sprintf("federation %q", f.GroupID), record.Strange(f))
	case f.Phase != record.PhaseReady:
		return p, false, &Error{Code: CodeConflict, Message: fmt.Sprintf("federation %q is %s; wait for its outcome, or delete it", f.GroupID, f.Phase)}
	case id.ifMatch != 0 && p.rev != id.ifMatch:
		return p, false, conflictOf(f)
	}
	if id.resolve == nil {
		var held []string
		c.state.read(func(v *View) { held = v.heldPlaces(f) })
		if len(held) > 0 {
			return p, false, heldBack(f, held)
		}
	}
	return p, f.Change != nil, nil
}

// othersService refuses a change of what the caller may see and does not own.
func othersService(service string) error {
	return &Error{Code: CodeForbidden, Message: fmt.Sprintf("service %q can be changed by its owner only", service)}
}

func conflictOf(f *record.Federation) error {
	return &Error{Code: CodeConflict, Message: fmt.Sprintf("federation %q has been changed since; GET it again and decide anew", f.GroupID)}
}
