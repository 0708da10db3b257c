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
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// CreateService validates a service definition and makes its federation, all or
// nothing (or as far as it goes, with deployment best-effort). It blocks until the
// outcome is known or req.Wait has passed.
func (c *Controller) CreateService(ctx context.Context, caller identity.Caller, req CreateRequest) (*CreateResult, error) {
	began := time.Now()
	req.RequestID = request.ID(req.RequestID)
	q := request.CreateClaim(caller, req.repeat(), req.RequestID)
	token := tokens.GivenBy(caller, req.Service.TakeRefreshToken())
	if req.Service.ClusterID == "" {
		req.Service.ClusterID = req.ClusterID
	}
	uid, before, err := c.accept(ctx, caller, q, func() ([]*Draft, error) {
		d, err := c.DraftCreate(caller, req.Service, req, q.Hash, token)
		if err != nil {
			return nil, err
		}
		return []*Draft{d}, asPlanned(req.Plan, func() string { return c.DigestOfCreate(caller, d) })
	})
	switch {
	case err != nil:
		return nil, fault.Crossing(outdated(req.Plan, err))
	case before != nil:
		res, err := c.replay(before.Request, before.Revision)
		return res, fault.Crossing(err)
	}
	res, err := c.await(ctx, uid, req.Wait-time.Since(began), req.Wait == 0)
	if err != nil {
		return nil, fault.Crossing(err)
	}
	return res, nil
}

// accept takes a request to transaction A, or finds the request that it repeats. It returns the
// uid to wait for, of the first of several federations, or a request that has its outcome already.
func (c *Controller) accept(ctx context.Context, caller identity.Caller, q request.Claim, draft func() ([]*Draft, error)) (string, *request.Accepted, error) {
	began, tries := time.Now(), gate.NewRetries()
	for {
		uid, before, err := c.tryAccept(ctx, caller, q, draft, began)
		if !errors.Is(err, gate.ErrFence) && !errors.Is(err, request.ErrAccepted) {
			return uid, before, err
		}
		if err := tries.Next(ctx, err); err != nil {
			return "", nil, err
		}
	}
}

// tryAccept is one try of accept. On ErrFence or ErrAccepted another try may end otherwise.
func (c *Controller) tryAccept(ctx context.Context, caller identity.Caller, q request.Claim, draft func() ([]*Draft, error), began time.Time) (string, *request.Accepted, error) {
	v, err := c.gate.FreshWith(ctx, q.Keys()...)
	if err != nil {
		return "", nil, err
	}
	switch r, err := c.requests.Repetition(v, q); {
	case err != nil:
		return "", nil, err
	case r != nil && r.Answer != nil:
		return "", r, nil
	case r != nil:
		return r.UID, nil, nil
	}
	drafts, err := draft()
	if c.awaitKeys(ctx, err, began) {
		return "", nil, gate.ErrFence
	}
	if err != nil {
		return "", nil, c.unlessKnown(ctx, q, err) // what has the name may be this very request
	}
	var before []gate.Staged
	var size int64
	for _, d := range drafts {
		size += gate.BytesThrough(d.Fed, d.Desired, slices.Concat(d.parts, d.Before)...)
		before = slices.Concat(before, d.parts, d.Before)
	}
	release, err := c.requests.Reserve(caller, drafts[0].Fed.Owner, size)
	if err != nil {
		return "", nil, c.unlessKnown(ctx, q, err)
	}
	defer release()
	if err := c.requests.MayKeep(q); err != nil {
		return "", nil, c.unlessKnown(ctx, q, err)
	}
	if err := c.Stage(ctx, before); err != nil {
		return "", nil, err
	}
	c.gate.Fail("after_specs")
	err = c.commitA(ctx, drafts, q, v)
	if _, told := errors.AsType[*fault.Error](err); told {
		err = c.unlessKnown(ctx, q, err) // it is told by a state that may not show that request yet
	}
	if err != nil {
		return "", nil, err
	}
	c.gate.Fail("after_accept")
	return drafts[0].Fed.UID, nil, nil
}

// unlessKnown is err, or ErrAccepted when the same request was accepted meanwhile.
func (c *Controller) unlessKnown(ctx context.Context, q request.Claim, err error) error {
	if c.RequestKnown(ctx, q) {
		return request.ErrAccepted
	}
	return err
}

// Validate returns the graph of a service, or every violation, and the revision of the fence at
// which the registered clusters were read.
func (c *Controller) Validate(caller identity.Caller, s *oscar.Service, req CreateRequest, token tokens.Given) (*topology.Graph, int64, error) {
	if req.Deployment != "" {
		OfService(s).Deployment = req.Deployment
	}
	return c.checked(caller, c.clustersOf(s), func(env topology.Env) (*topology.Graph, []oscar.Violation) {
		g, violations := topology.FromService(s, env)
		if token.Token == "" && !caller.Administrator && delegates(s) {
			violations = append(violations, refreshTokenRequired())
		}
		return g, violations
	})
}

// ValidateStanding is Validate for the administrator and for replicas that stand already: a rule that is newer than the
// service does not refuse it, nor does a cluster that takes nothing new. Its name and its federation are not of its OSCAR
// alone, and have to be valid.
func (c *Controller) ValidateStanding(s *oscar.Service) (*topology.Graph, int64, error) {
	stands := s.Clone()
	stands.Name, stands.Federation = "", nil
	clusters := c.clustersOf(s)
	return c.checked(Administrator(), clusters, func(env topology.Env) (*topology.Graph, []oscar.Violation) {
		for _, id := range clusters {
			open(env, id)
		}
		env.Stands = stands
		return topology.FromService(s, env)
	})
}

// OfService returns the service's federation, and makes one when it has none.
func OfService(s *oscar.Service) *oscar.Federation {
	if s.Federation == nil {
		s.Federation = &oscar.Federation{}
	}
	return s.Federation
}

// NewRecord is the record of a federation that is to be created.
func NewRecord(caller identity.Caller, s *oscar.Service, g *topology.Graph, req CreateRequest, hash string, now time.Time) record.Federation {
	return record.Federation{
		V: record.Version, UID: record.NewUID(), Owner: caller.Subject, GroupID: g.GroupID, Generation: 1,
		Phase: record.PhasePreparing, RequestID: req.RequestID, By: caller.Subject, Topology: g.Topology, Delegation: g.Delegation,
		Deployment: g.Deployment, Drift: g.Drift, ReschedulerThreshold: g.ReschedulerThreshold,
		Visibility: s.Visibility, AllowedUsers: allowedUsers(s), Prefetch: s.ImagePrefetch, Request: hash,
		CreatedAt: record.At(now), ChangedAt: record.At(now),
	}
}

// allowedUsers lists the users that a service allows, as OSCAR reads them.
func allowedUsers(s *oscar.Service) []string { return s.WithDefaults().AllowedUsers }

// Draft is a federation that is about to be created: everything that
// transaction A and the writes before it need.
type Draft struct {
	Fed record.Federation
	// Service is the definition as it was submitted, with its secrets.
	Service *oscar.Service
	token   tokens.Given
	// Fence is the revision that the clusters were validated at.
	Fence    int64
	Rendered []Rendered
	Desired  []gate.Placed
	// Before has the records that are written before transaction A refers to them.
	Before []gate.Staged
	// parts are written before those.
	parts []gate.Staged
	// size is the check of the transactions that follow.
	size sizeCheck
	// hold is the order to keep the refresh token; nil without one.
	hold *gate.Staged
}

// DraftCreate validates a definition and makes everything that its creation
// writes. It writes nothing.
func (c *Controller) DraftCreate(caller identity.Caller, s *oscar.Service, req CreateRequest, hash string, token tokens.Given) (*Draft, error) {
	g, fence, err := c.Validate(caller, s, req, token)
	if err != nil {
		return nil, err
	}
	return c.draftValid(caller, s, g, fence, req, hash, token)
}

// draftValid is DraftCreate for a definition that was validated at a revision of the fence.
func (c *Controller) draftValid(caller identity.Caller, s *oscar.Service, g *topology.Graph, fence int64, req CreateRequest, hash string, token tokens.Given) (*Draft, error) {
	if err := c.Taken(caller.Subject, g); err != nil {
		return nil, err
	}
	now := c.cfg.Now()
	fed := NewRecord(caller, s, g, req, hash, now)
	c.state.Read(func(v *view.View) { fed.Epoch = v.Epoch() })
	until := record.At(now.Add(c.limits.PrepareDeadline))
	fed.Deadline = &until
	if token.Token != "" {
		if err := tokens.CheckRefreshToken(token.Token, tokens.RefreshTokenPath); err != nil {
			return nil, err
		}
	}
	b := tokens.AccessTokenOf(caller, fed.Owner)
	if err := b.CheckLife(now, c.limits.PrepareDeadline+tokens.Margin); err != nil {
		return nil, err
	}
	d, err := c.draft(c.Renderer(s, g, fed), token)
	if err != nil {
		return nil, err
	}
	d.Fence = fence
	d.size = c.sizeCheckOf(d.Fed, d.Desired, d.Before[len(d.Desired):])
	if err := d.size.checkCreate(); err != nil {
		return nil, err
	}
	if b != nil {
		access, err := c.tokens.SealAccess(b, &d.Fed, tokens.ClustersOf(d.Fed.Members))
		if err != nil {
			return nil, err
		}
		d.Before = append(d.Before, access...)
	}
	return d, nil
}

// draft renders a new federation.
func (c *Controller) draft(r *Renderer, token tokens.Given) (*Draft, error) {
	d := &Draft{Fed: r.fed, Service: r.service, token: token}
	for _, n := range r.graph.Nodes {
		m := Member(n)
		if n.Replica() {
			m.UID = record.NewUID()
		}
		d.Fed.Members = append(d.Fed.Members, m)
	}
	if err := r.neverConnected(d.Fed); err != nil {
		return nil, err
	}
	if err := r.checkSecrets(d.Fed.Members); err != nil {
		return nil, err
	}
	all, err := r.Replicas(d.Fed.Members)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		d.Desired = append(d.Desired, one.Desired)
		d.Before = append(d.Before, one.Spec)
		d.Rendered = append(d.Rendered, one.what)
	}
	if token.Token != "" {
		holder := r.origin.ClusterID
		hold, err := c.tokens.NewHold(&d.Fed, holder, r.recipients[holder].Key, d.Fed.RequestID, token, nil)
		if err != nil {
			return nil, err
		}
		d.hold = &gate.Staged{Key: record.HoldKey(holder, d.Fed.UID), Rec: hold}
	}
	records, err := r.DefinitionRecords()
	if err != nil {
		return nil, err
	}
	d.Before = append(d.Before, records...)
	d.Fed.Parts, d.parts = r.Parts()
	return d, nil
}

// commitA is the transaction that makes federations appear, each whole, and all at once. What the
// request was found by was read; the rest is first taken to be as the state shows it.
func (c *Controller) commitA(ctx context.Context, drafts []*Draft, q request.Claim, read store.View) error {
	first := drafts[0].Fed
	keys := append(q.Keys(), record.FederationKey(first.UID), record.FenceKey, record.MetaKey)
	if len(drafts) == 1 {
		keys = append(keys, record.NameKey(first.Owner, first.GroupID))
	}
	for _, d := range drafts {
		for _, p := range d.Desired {
			keys = append(keys, record.DesiredServiceKey(p.Cluster, p.Service))
		}
	}
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, From: read.With(c.state.Mirror.Snapshot(), keys...), RequestID: first.RequestID, Marker: record.FederationKey(first.UID),
		Build: func(v store.View, tx *store.Txn) error {
			if err := c.requests.Free(q, v); err != nil {
				return err
			}
			if kv, _ := v.KV(record.FenceKey); kv.ModRevision != drafts[0].Fence {
				return gate.ErrFence
			}
			if err := gate.SameEpoch(v, tx, first.Epoch); err != nil {
				return err
			}
			tx.Expect(record.FenceKey)
			if err := c.namesFree(v, tx, drafts); err != nil {
				return err
			}
			q.Write(tx, first.UID, first.CreatedAt, nil)
			for _, d := range drafts {
				if err := c.putDraft(v, tx, d); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	return c.gate.Shows(ctx, res.Revision)
}

// putDraft puts one federation with its desired records into transaction A.
func (c *Controller) putDraft(v store.View, tx *store.Txn, d *Draft) error {
	tx.Put(record.NameKey(d.Fed.Owner, d.Fed.GroupID), record.Name{V: record.Version, UID: d.Fed.UID})
	tx.Put(record.FederationKey(d.Fed.UID), d.Fed)
	request.Note(tx, d.Fed.CreatedAt.Time, request.EntryOf(d.Fed, record.ActionCreate, record.OutcomeAccepted))
	for _, p := range d.Desired {
		if err := c.LocationFree(v, p); err != nil {
			return err
		}
		key := record.DesiredServiceKey(p.Cluster, p.Service)
		tx.ExpectAbsent(key)
		tx.Put(key, p.Rec)
	}
	if d.hold != nil {
		tx.Put(d.hold.Key, d.hold.Rec)
	}
	return nil
}

// namesFree refuses a group_id that a living federation of the owner has. The names of a batch are
// compared all together, since a transaction has room for few comparisons: no name of the owner
// was written since the state that they were looked up in.
func (c *Controller) namesFree(v store.View, tx *store.Txn, drafts []*Draft) error {
	if first := drafts[0].Fed; len(drafts) == 1 {
		key := record.NameKey(first.Owner, first.GroupID)
		tx.ExpectAbsent(record.FederationKey(first.UID))
		tx.ExpectAbsent(key)
		return c.NameFree(v, key, first.GroupID)
	}
	var revision int64
	held := map[string]string{}
	c.state.Read(func(now *view.View) {
		revision = now.Revision
		for _, d := range drafts {
			if uid, ok := now.Names.Lookup(record.NameKey(d.Fed.Owner, d.Fed.GroupID)); ok {
				held[d.Fed.GroupID] = uid
			}
		}
	})
	for _, d := range drafts {
		if uid, ok := held[d.Fed.GroupID]; ok {
			return c.nameHeld(uid, d.Fed.GroupID)
		}
	}
	tx.ExpectUnwritten(record.NamesOfPrefix(drafts[0].Fed.Owner), revision)
	return nil
}

// NameFree refuses a group_id that a living federation of the owner has.
func (c *Controller) NameFree(v store.View, nameKey, groupID string) error {
	kv, ok := v.KV(nameKey)
	if !ok {
		return nil
	}
	n, err := store.Decode[record.Name](kv)
	if err != nil {
		return err
	}
	return c.nameHeld(n.UID, groupID)
}

// nameHeld is the error that says which federation has the name.
func (c *Controller) nameHeld(uid, groupID string) error {
	if c.requests.InFlight(uid) {
		return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("a federation %q is being created or rolled back; wait for its outcome, or delete it", groupID)}
	}
	return &fault.Error{Code: fault.CodeAlreadyExists, Message: fmt.Sprintf("a federation %q exists already; delete it, or choose another group_id", groupID)}
}

// LocationFree refuses a location that any federation holds.
func (c *Controller) LocationFree(v store.View, p gate.Placed) error {
	kv, ok := v.KV(record.DesiredServiceKey(p.Cluster, p.Service))
	if !ok {
		return nil
	}
	d, err := store.Decode[record.Desired](kv)
	if err != nil {
		return err
	}
	return c.locationHeld(d, p.Cluster, p.Service)
}
