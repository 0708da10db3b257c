package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// errFence says that the set of clusters changed after the service was validated, or
// that what was staged for it may have been swept.
var errFence = errors.New("the registered clusters have changed")

// CreateService validates a service definition and makes its federation, all or
// nothing (or as far as it goes, with deployment best-effort). It blocks until the
// outcome is known or req.Wait has passed.
func (c *ControlPlane) CreateService(ctx context.Context, caller identity.Caller, req CreateRequest) (*CreateResult, error) {
	began := time.Now()
	if req.RequestID == "" {
		req.RequestID = newUID()
	}
	uid, replayed, err := c.accept(ctx, caller, req, createClaim(caller, req))
	if err != nil {
		return nil, crossing(outdated(req.Plan, err))
	}
	if uid == nil {
		return replayed, nil
	}
	res, err := c.await(ctx, *uid, req.Wait-time.Since(began), req.Wait == 0)
	if err != nil {
		return nil, crossing(err)
	}
	return res, nil
}

// accept takes a request to transaction A, or finds the one that it repeats. It
// answers the uid to wait for, or a result that was kept.
func (c *ControlPlane) accept(ctx context.Context, caller identity.Caller, req CreateRequest, q claim) (*string, *CreateResult, error) {
	token := offered(caller, req.Service.TakeRefreshToken())
	began, tries := time.Now(), newRetries()
	for {
		uid, res, err := c.tryAccept(ctx, caller, req, q, token, began)
		if !errors.Is(err, errFence) && !errors.Is(err, errAccepted) {
			return uid, res, err
		}
		if err := tries.next(ctx, err); err != nil {
			return nil, nil, err
		}
	}
}

// tryAccept is one try of accept. Its error is errFence or errAccepted when another one
// may end otherwise.
func (c *ControlPlane) tryAccept(ctx context.Context, caller identity.Caller, req CreateRequest, q claim, token offeredToken, began time.Time) (*string, *CreateResult, error) {
	v, err := c.freshWith(ctx, q.keys()...)
	if err != nil {
		return nil, nil, err
	}
	switch r, err := c.repetition(v, q); {
	case err != nil:
		return nil, nil, err
	case r != nil && r.Answer != nil:
		res, err := c.replay(r.Request, r.revision)
		return nil, res, err
	case r != nil:
		return &r.UID, nil, nil
	}
	d, err := c.draftCreate(caller, req.Service, req, q.hash, token)
	if c.awaitKeys(ctx, err, began) {
		return nil, nil, errFence
	}
	if err != nil {
		return nil, nil, err
	}
	if err := c.createAsPlanned(caller, req, d); err != nil {
		return nil, nil, c.unlessKnown(ctx, q, err) // what has the name may be this very request
	}
	release, err := c.room(caller, d.fed.Owner, bytesThrough(d.fed, d.desired, d.before...))
	if err != nil {
		return nil, nil, c.unlessKnown(ctx, q, err)
	}
	defer release()
	if err := c.mayKeep(q); err != nil {
		return nil, nil, c.unlessKnown(ctx, q, err)
	}
	if err := c.stage(ctx, d.before); err != nil {
		return nil, nil, err
	}
	c.fail("after_specs")
	if err := c.commitA(ctx, d, q); err != nil {
		return nil, nil, err
	}
	c.fail("after_accept")
	return &d.fed.UID, nil, nil
}

// unlessKnown is err, or errAccepted when the same request was accepted meanwhile.
func (c *ControlPlane) unlessKnown(ctx context.Context, q claim, err error) error {
	if c.knows(ctx, q) {
		return errAccepted
	}
	return err
}

// validate gives the graph of a service, or every violation, and the revision of
// the fence that the registered clusters were read at.
func (c *ControlPlane) validate(caller identity.Caller, s *oscar.Service, req CreateRequest, token offeredToken) (*topology.Graph, int64, error) {
	if req.Deployment != "" {
		federationOf(s).Deployment = req.Deployment
	}
	env, fence := c.registered(caller)
	g, violations := topology.FromService(s, env)
	if token.token == "" && !caller.Administrator && delegates(s) {
		violations = append(violations, refreshTokenRequired())
	}
	if len(violations) > 0 {
		return nil, 0, &Error{Code: CodeInvalid, Message: fmt.Sprintf("%d violations", len(violations)), Violations: violations}
	}
	return g, fence, nil
}

// federationOf gives the service's federation, made when it has none.
func federationOf(s *oscar.Service) *oscar.Federation {
	if s.Federation == nil {
		s.Federation = &oscar.Federation{}
	}
	return s.Federation
}

func newFederation(caller identity.Caller, s *oscar.Service, g *topology.Graph, req CreateRequest, hash string, now time.Time) record.Federation {
	return record.Federation{
		V: record.Version, UID: newUID(), Owner: caller.Subject, GroupID: g.GroupID, Generation: 1,
		Phase: record.PhasePreparing, RequestID: req.RequestID, By: caller.Subject, Topology: g.Topology, Delegation: g.Delegation,
		Deployment: g.Deployment, Drift: g.Drift, ReschedulerThreshold: g.ReschedulerThreshold,
		Visibility: s.Visibility, AllowedUsers: allowedUsers(s), Prefetch: s.ImagePrefetch, Request: hash,
		CreatedAt: record.At(now), ChangedAt: record.At(now),
	}
}

// allowedUsers are those that a service names, as OSCAR reads them.
func allowedUsers(s *oscar.Service) []string { return s.WithDefaults().AllowedUsers }

// draft is a federation that is about to be created: everything that
// transaction A and the writes before it need.
type draft struct {
	fed record.Federation
	// service is the definition as it was submitted, with its secrets.
	service *oscar.Service
	token   offeredToken
	// fence is the revision that the clusters were validated at.
	fence    int64
	rendered []rendered
	desired  []placed
	// before holds what is written before transaction A refers to it.
	before []staged
	// hold is the order to keep the refresh token; nil without one.
	hold *staged
}

// draftCreate validates a definition and makes everything that its creation
// writes. It writes nothing.
func (c *ControlPlane) draftCreate(caller identity.Caller, s *oscar.Service, req CreateRequest, hash string, token offeredToken) (*draft, error) {
	g, fence, err := c.validate(caller, s, req, token)
	if err != nil {
		return nil, err
	}
	now := c.cfg.Now()
	fed := newFederation(caller, s, g, req, hash, now)
	c.state.read(func(v *View) { fed.Epoch = v.epoch() })
	until := record.At(now.Add(c.cfg.PrepareDeadline))
	fed.Deadline = &until
	if token.token != "" {
		if err := checkRefreshToken(token.token, refreshTokenPath); err != nil {
			return nil, err
		}
	}
	b := bears(caller, fed.Owner)
	if err := b.lasts(now, c.cfg.PrepareDeadline+tokenMargin); err != nil {
		return nil, err
	}
	d, err := c.draft(c.renderer(s, g, fed), token)
	if err != nil {
		return nil, err
	}
	d.fence = fence
	if err := c.largestOf(d.fed, d.desired, d.before[len(d.desired):]).creates(); err != nil {
		return nil, err
	}
	if b != nil {
		access, err := c.sealAccess(b, &d.fed, clustersOf(d.fed.Members))
		if err != nil {
			return nil, err
		}
		d.before = append(d.before, access...)
	}
	return d, nil
}

// draft renders a new federation.
func (c *ControlPlane) draft(r *renderer, token offeredToken) (*draft, error) {
	d := &draft{fed: r.fed, service: r.service, token: token}
	for _, n := range r.graph.Nodes {
		m := member(n)
		if n.Replica() {
			m.UID = newUID()
		}
		d.fed.Members = append(d.fed.Members, m)
	}
	if err := r.neverConnected(d.fed); err != nil {
		return nil, err
	}
	all, err := r.replicas(d.fed.Members)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		d.desired = append(d.desired, one.desired)
		d.before = append(d.before, one.spec)
		d.rendered = append(d.rendered, one.what)
	}
	if token.token != "" {
		holder := r.origin.ClusterID
		hold, err := c.newHold(&d.fed, holder, r.recipients[holder].Key, d.fed.RequestID, token, nil)
		if err != nil {
			return nil, err
		}
		d.hold = &staged{record.HoldKey(holder, d.fed.UID), hold}
	}
	submitted, err := r.submitted()
	if err != nil {
		return nil, err
	}
	d.before = append(d.before, submitted...)
	return d, nil
}

// commitA is the transaction that makes the federation appear, whole.
func (c *ControlPlane) commitA(ctx context.Context, d *draft, q claim) error {
	fedKey, nameKey := record.FederationKey(d.fed.UID), record.NameKey(d.fed.Owner, d.fed.GroupID)
	keys := append(q.keys(), fedKey, nameKey, record.FenceKey, record.MetaKey)
	for _, p := range d.desired {
		keys = append(keys, record.DesiredServiceKey(p.cluster, p.service))
	}
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, RequestID: d.fed.RequestID, Marker: fedKey,
		Build: func(v store.View, tx *store.Txn) error {
			if err := c.free(q, v); err != nil {
				return err
			}
			if kv, _ := v.KV(record.FenceKey); kv.ModRevision != d.fence {
				return errFence
			}
			if err := sameEpoch(v, tx, d.fed.Epoch); err != nil {
				return err
			}
			if err := c.nameFree(v, nameKey, d.fed.GroupID); err != nil {
				return err
			}
			for _, p := range d.desired {
				if err := c.placeFree(v, p); err != nil {
					return err
				}
			}
			tx.ExpectAbsent(fedKey)
			tx.ExpectAbsent(nameKey)
			tx.Expect(record.FenceKey)
			tx.Put(nameKey, record.Name{V: record.Version, UID: d.fed.UID})
			tx.Put(fedKey, d.fed)
			q.write(tx, d.fed.UID, d.fed.CreatedAt, nil)
			note(tx, d.fed.CreatedAt.Time, entryOf(d.fed, record.ActionCreate, record.OutcomeAccepted))
			for _, p := range d.desired {
				key := record.DesiredServiceKey(p.cluster, p.service)
				tx.ExpectAbsent(key)
				tx.Put(key, p.rec)
			}
			if d.hold != nil {
				tx.Put(d.hold.key, d.hold.rec)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	return c.shows(ctx, res.Revision)
}

func (c *ControlPlane) nameFree(v store.View, nameKey, groupID string) error {
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

// nameHeld tells that a federation has the name.
func (c *ControlPlane) nameHeld(uid, groupID string) error {
	if c.inFlight(uid) {
		return &Error{Code: CodeConflict, Message: fmt.Sprintf("a federation %q is being created or rolled back; wait for its outcome, or delete it", groupID)}
	}
	return &Error{Code: CodeAlreadyExists, Message: fmt.Sprintf("a federation %q exists already; delete it, or choose another group_id", groupID)}
}

// placeFree refuses a place that a federation, whose ever it is, holds.
func (c *ControlPlane) placeFree(v store.View, p placed) error {
	kv, ok := v.KV(record.DesiredServiceKey(p.cluster, p.service))
	if !ok {
		return nil
	}
	d, err := store.Decode[record.Desired](kv)
	if err != nil {
		return err
	}
	return c.placeHeld(d, p.cluster, p.service)
}
