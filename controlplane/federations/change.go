package federations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// Edit turns the present definition, with its secrets, into the next one.
type Edit func(s *oscar.Service) (*oscar.Service, error)

// ChangeService replaces the definition of a federation; members that differ are
// part of the same change. It is one transaction over the whole topology, and
// converges replica by replica: one that fails takes no healthy one down.
func (c *Controller) ChangeService(ctx context.Context, caller identity.Caller, req ChangeRequest) (*ChangeResult, error) {
	return c.replace(ctx, caller, req, 0)
}

// replace is ChangeService; back is the generation that the definition was taken from, or 0.
func (c *Controller) replace(ctx context.Context, caller identity.Caller, req ChangeRequest, back int64) (*ChangeResult, error) {
	ch := Change{
		back:   back,
		Caller: caller, Service: req.Service.Name, ClusterID: req.Service.ClusterID, ifMatch: req.IfMatch, plan: req.Plan, Wait: req.Wait,
		Claim: request.ClaimOf(caller, req.Repeat, request.ID(req.RequestID)), Whole: true, Token: tokens.GivenBy(caller, req.Service.TakeRefreshToken()),
	}
	if ch.Token.Token != "" {
		if err := tokens.CheckRefreshToken(ch.Token.Token, tokens.RefreshTokenPath); err != nil {
			return nil, err
		}
	}
	if back != 0 {
		return c.Change(ctx, ch, ReplaceBy(req.Service)) // what it had not is gone
	}
	return c.Change(ctx, ch, UpdateBy(req.Service))
}

// UpdateBy is ReplaceBy with a definition as a client sends it, which may leave out what stays as it is.
func UpdateBy(service *oscar.Service) Edit {
	return func(old *oscar.Service) (*oscar.Service, error) {
		s := service.Clone()
		s.KeepAbsent(old)
		return ReplaceBy(s)(old)
	}
}

// ReplaceBy is the edit that replaces the definition: empty secrets stay unchanged, and so do
// fields that an answer filled in or showed in its normal form.
func ReplaceBy(service *oscar.Service) Edit {
	return func(old *oscar.Service) (*oscar.Service, error) {
		s := service.Clone()
		s.RestorePaths(old)
		s.RestoreDefaultMinIO(old)
		// A client reads these fields and sends them back; it cannot choose them.
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
func (c *Controller) ChangeReplicas(ctx context.Context, caller identity.Caller, service string, req ReplicasRequest) (*ChangeResult, error) {
	ch := Change{
		Caller: caller, Service: service, ClusterID: req.ClusterID, ifMatch: req.IfMatch, Wait: req.Wait,
		Claim: request.ClaimOf(caller, req.Repeat, request.ID(req.RequestID)), paths: req.requestPaths(),
		removal: removal{only: len(req.Add)+len(req.Replace) == 0, data: req.Data, jobs: req.Jobs, also: req.names},
	}
	ch.Claim.TakesAway = ch.removal.only
	return c.Change(ctx, ch, func(old *oscar.Service) (*oscar.Service, error) {
		s := old.Clone()
		members, err := req.Apply(OfService(s).Members)
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

// Apply gives the members after the request, in a stable order.
func (r ReplicasRequest) Apply(members []oscar.Member) ([]oscar.Member, error) {
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
			return nil, fault.NotFound(fmt.Sprintf("%s/%s is not a member; GET lists those that are", p.From.ClusterID, p.From.ServiceName))
		}
		out[i] = p.To
	}
	for _, m := range r.Add {
		if i := at(out, m); i < 0 {
			out = append(out, m)
		} else if !sameMember(out[i], m) {
			return nil, &fault.Error{Code: fault.CodeAlreadyExists, Message: fmt.Sprintf(
				"%s/%s is a member already, with other settings; change them instead: PUT, or apply with the settings in the definition", m.ClusterID, m.ServiceName)}
		}
	}
	return out, nil
}

// sameMember compares two members' settings, as far as they have an effect.
func sameMember(a, b oscar.Member) bool {
	of := func(m oscar.Member) *oscar.Service {
		m.Type = m.Kind()
		if m.Replica() {
			m.URL, m.SSLVerify = "", nil // those of its cluster's registration count
		} else if m.SSLVerify == nil {
			m.SSLVerify = new(true)
		}
		return &oscar.Service{Federation: &oscar.Federation{Members: []oscar.Member{m}}}
	}
	return oscar.Equal(of(a), of(b))
}

// Change describes a change: its caller, its service, its conditions and how long it waits.
type Change struct {
	Caller    identity.Caller
	Service   string
	ClusterID string
	Claim     request.Claim
	ifMatch   int64
	// plan is the digest of the plan that the change must match.
	plan string
	Wait time.Duration
	// Whole says that the definition is replaced, which only its coordinator accepts.
	Whole bool
	// back is the generation whose definition is to come back; 0 for none.
	back int64
	// Token is the refresh token that came with the change. The transaction that accepts the
	// change keeps it: the owner may always give it, also with a change that a vote then
	// refuses.
	Token   tokens.Given
	removal removal
	paths   requestPaths
	// Resolve is the side that a person takes in a difference; then held replicas do not block
	// the change.
	Resolve *Resolution
}

// removal is what a change says of the members that it removes.
type removal struct {
	// only says that it does nothing else: that is possible when etcd is short of space, and it
	// waits for their deletion, too.
	only bool
	// data and jobs are the orders for them. also selects the members that leave already and that
	// get these orders as well.
	data, jobs string
	also       func(record.Member) bool
}

// attempt is a change that was committed, or that waits for votes.
type attempt struct {
	view.MemberRef
	// generation is the one that the change makes, or the present one when there
	// was nothing to change.
	generation int64
	votes      bool
}

// Change edits a federation until the edit is committed, refused or needless. When another
// change comes in between, it edits again from the new state, unless If-Match forbids that.
func (c *Controller) Change(ctx context.Context, ch Change, fn Edit) (*ChangeResult, error) {
	began, tries := time.Now(), gate.NewRetries()
	left := func() time.Duration { return ch.Wait - time.Since(began) }
	for {
		r, err := c.requests.Repeated(ctx, ch.Claim)
		if err != nil {
			return nil, fault.Crossing(err)
		}
		if r != nil {
			res, err := c.again(ctx, ch, r, left())
			return res, fault.Crossing(err)
		}
		a, err := c.attemptOnce(ctx, ch, fn)
		stale := errors.Is(err, gate.ErrStale)
		if stale && (ch.ifMatch != 0 || ch.plan != "") {
			stale, err = false, conflictOf(a.Rec)
		}
		// The same request may itself have caused the conflict.
		if stale || errors.Is(err, request.ErrAccepted) || errors.Is(err, gate.ErrFence) || c.awaitKeys(ctx, err, began) || err != nil && c.RequestKnown(ctx, ch.Claim) {
			if err := tries.Next(ctx, err); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fault.Crossing(outdated(ch.plan, err))
		}
		res, err := c.awaitChange(ctx, ch, a, left())
		if err != nil {
			return nil, fault.Crossing(err)
		}
		return c.withRemoved(ctx, res, a.MemberRef, left()), nil
	}
}

// RequestKnown says whether the same request is known to have been accepted.
func (c *Controller) RequestKnown(ctx context.Context, q request.Claim) bool {
	r, err := c.requests.Repeated(ctx, q)
	return err == nil && r != nil
}

// attemptOnce makes one attempt as soon as no other change waits for votes.
func (c *Controller) attemptOnce(ctx context.Context, ch Change, fn Edit) (attempt, error) {
	w := c.state.Waiters.Add(view.Subject{Service: ch.Service})
	defer w.Drop()
	for {
		if err := c.gate.Fresh(ctx); err != nil {
			return attempt{}, err
		}
		p, _, err := c.Changeable(ch)
		if err != nil {
			return attempt{MemberRef: p}, err
		}
		end, err := c.changing.Lock(ctx, p.UID)
		if err != nil {
			return attempt{MemberRef: p}, behind(p.Rec, err)
		}
		a := attempt{}
		p, busy, err := c.Changeable(ch) // it may have changed while we waited
		if err == nil && !busy {
			a, err = c.tryChange(ctx, ch, p, fn)
		}
		end()
		a.MemberRef = p
		if err != nil || !busy {
			return a, err
		}
		select {
		case <-w.Wake:
		case <-ctx.Done():
			return a, behind(p.Rec, context.Cause(ctx))
		}
	}
}

// behind is the error of a change whose time ran out while other changes of the federation came
// first. cause is what ended its wait.
func behind(f *record.Federation, cause error) error {
	if !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	what := fmt.Sprintf("other changes of federation %q come before this one", f.GroupID)
	if f.Change != nil {
		what = fmt.Sprintf("the change of federation %q by request %s waits for the votes of the clusters that it adds, until %s at most",
			f.GroupID, f.Change.RequestID, f.Change.Deadline.Format(time.RFC3339))
	}
	return &fault.Error{Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second, Cause: cause, Message: "nothing was changed: " + what + "; send it again then"}
}

// Changeable finds the federation. busy says that another change waits for votes.
func (c *Controller) Changeable(ch Change) (p view.MemberRef, busy bool, err error) {
	p, err = c.state.FindWithResult(ch.Caller, ch.Service, ch.ClusterID)
	if err != nil {
		return p, false, err
	}
	f := p.Rec
	at := f.Coordinator()
	switch {
	case f.Phase.Result() || at == nil:
		return p, false, view.NoService(ch.Service, f.Phase)
	case !ch.Caller.MayChange(f.Owner):
		return p, false, othersService(ch.Service)
	case ch.Whole && !p.At().Coordinator:
		return p, false, &fault.Error{Code: fault.CodeConflict, Candidates: []string{at.ClusterID}, Message: fmt.Sprintf(
			"service %q is a member of federation %q; change its coordinator %s/%s", ch.Service, f.GroupID, at.ClusterID, at.ServiceName)}
	case record.Strange(f) != "":
		return p, false, fault.NewerVersion(fmt.Sprintf("federation %q", f.GroupID), record.Strange(f))
	case f.Phase != record.PhaseReady:
		return p, false, &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("federation %q is %s; wait for its outcome, or delete it", f.GroupID, f.Phase)}
	case ch.ifMatch != 0 && p.Rev != ch.ifMatch:
		return p, false, conflictOf(f)
	}
	if ch.Resolve == nil {
		var held []string
		c.state.Read(func(v *view.View) { held = v.HeldReplicas(f) })
		if len(held) > 0 {
			return p, false, heldError(f, held)
		}
	}
	return p, f.Change != nil, nil
}

// othersService refuses a change of a service that the caller may see and does not own.
func othersService(service string) error {
	return &fault.Error{Code: fault.CodeForbidden, Message: fmt.Sprintf("service %q can be changed by its owner only", service)}
}

func conflictOf(f *record.Federation) error {
	return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("federation %q has been changed since; GET it again and decide anew", f.GroupID)}
}
