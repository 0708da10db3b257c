package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// ResolveRequest takes a side in one difference.
type ResolveRequest struct {
	ClusterID, ServiceName string
	// Keep is KeepCluster or KeepStore.
	Keep      string
	RequestID string
	// Wait is how long to wait until it is carried out.
	Wait time.Duration
}

// maxJump bounds how far a report can move the generation of a federation: a hostile
// one could use the numbers up.
const maxJump = 1_000_000

// resolution is the side that was taken, on its way through a change.
type resolution struct {
	uid string
	// generation is at least that of the change.
	generation int64
	// accept is what of another history may be written over; again says that the
	// service is made though it is gone.
	accept *record.Branch
	again  bool
	// back is the orphan that becomes a member, with its uid.
	back *oscar.Member
}

// apply gives a desired record the orders of a resolution that concern it.
func (r *resolution) apply(d *record.Desired) {
	if r == nil || d.UID != r.uid {
		return
	}
	if r.accept != nil {
		d.Past = record.Branched(d.Past, r.accept.Epoch, r.accept.Generation)
	}
	d.Again = d.Again || r.again
}

// Resolve ends one difference as a person decides, and answers how it was.
func (c *ControlPlane) Resolve(ctx context.Context, caller identity.Caller, req ResolveRequest) (*Difference, error) {
	req.RequestID = requestID(req.RequestID)
	if err := c.fresh(ctx); err != nil {
		return nil, err
	}
	d, err := c.difference(caller, req)
	if err != nil {
		return nil, err
	}
	take := c.keepStore
	does := d.KeepStore
	if req.Keep == KeepCluster {
		take, does = c.keepCluster, d.KeepCluster
	}
	if does == "" {
		return nil, &Error{Code: CodeFailedPrecondition, Message: fmt.Sprintf(
			"%s/%s is %s, and keeping what the %s has is not possible; oscarfed describe says what is", d.ClusterID, d.ServiceName, d.Kind, req.Keep)}
	}
	err = take(ctx, caller, req, d)
	if errors.Is(err, errStale) {
		err = &Error{Code: CodeConflict, Message: fmt.Sprintf("%s/%s has changed meanwhile; look again", d.ClusterID, d.ServiceName)}
	}
	return d, crossing(err)
}

// difference finds what a request is about.
func (c *ControlPlane) difference(caller identity.Caller, req ResolveRequest) (*Difference, error) {
	if req.Keep != KeepCluster && req.Keep != KeepStore {
		return nil, &Error{Code: CodeInvalid, Message: "1 violations", Violations: []oscar.Violation{{
			Path: "keep", Rule: oscar.RuleOneOf, Value: req.Keep, Message: "keep is cluster or store"}}}
	}
	var found *Difference
	c.state.read(func(v *View) {
		for _, d := range v.differences(c.serviceToken) {
			if d.ClusterID == req.ClusterID && d.ServiceName == req.ServiceName && (caller.Administrator || d.Owner != "" && caller.MayChange(d.Owner)) {
				found = &d
			}
		}
	})
	if found == nil {
		return nil, notFound(fmt.Sprintf("%s/%s does not differ from the store, as far as its cluster has compared", req.ClusterID, req.ServiceName))
	}
	if found.Kind == DifferenceOrphan && !caller.Administrator {
		return nil, &Error{Code: CodeForbidden, Message: "only the administrator may resolve orphans"}
	}
	return found, nil
}

func (c *ControlPlane) keepStore(ctx context.Context, caller identity.Caller, req ResolveRequest, d *Difference) error {
	accept := &record.Branch{Epoch: d.epoch, Generation: d.ClusterGeneration}
	switch {
	case d.Kind == DifferenceOrphan:
		return c.bury(ctx, req, d)
	case d.tombstone:
		return c.insistOnEnd(ctx, req, d, accept)
	case d.Kind == DifferenceMissing:
		accept = nil
	}
	return c.rewrite(ctx, caller, req, d, &resolution{uid: d.UID, accept: accept, again: d.Kind == DifferenceMissing},
		func(old *oscar.Service) (*oscar.Service, error) { return old, nil })
}

func (c *ControlPlane) keepCluster(ctx context.Context, caller identity.Caller, req ResolveRequest, d *Difference) error {
	switch {
	case d.Kind == DifferenceAhead, d.Kind == DifferenceOrphan && d.Federation == "":
		return c.ask(ctx, req, d)
	case d.Kind == DifferenceMissing && d.origin:
		_, err := c.DeleteService(ctx, caller, d.ServiceName, DeleteOptions{ClusterID: d.ClusterID, RequestID: req.RequestID, Wait: req.Wait})
		return err
	case d.Kind == DifferenceMissing:
		remove := ReplicasRequest{Remove: []oscar.Member{{Type: oscar.MemberOSCAR, ClusterID: d.ClusterID, ServiceName: d.ServiceName}}}
		return c.rewrite(ctx, caller, req, d, &resolution{uid: d.UID}, membersBy(remove))
	}
	// An orphan of a federation that the store has.
	back := oscar.Member{Type: oscar.MemberOSCAR, ClusterID: d.ClusterID, ServiceName: d.ServiceName}
	return c.rewrite(ctx, caller, req, d, &resolution{
		uid: d.UID, accept: &record.Branch{Epoch: d.epoch, Generation: d.ClusterGeneration}, again: true, back: &back,
	}, membersBy(ReplicasRequest{Add: []oscar.Member{back}}))
}

// membersBy is the edit of a request about members.
func membersBy(req ReplicasRequest) edit {
	return func(old *oscar.Service) (*oscar.Service, error) {
		s := old.Clone()
		members, err := req.apply(federationOf(s).Members)
		if err != nil {
			return nil, err
		}
		s.Federation.Members = members
		return s, nil
	}
}

// rewrite is one change over the whole federation, above every generation that is
// reported of it.
func (c *ControlPlane) rewrite(ctx context.Context, caller identity.Caller, req ResolveRequest, d *Difference, r *resolution, fn edit) error {
	var at *record.Member
	generation, highest := int64(0), d.ClusterGeneration
	c.state.read(func(v *View) {
		f, ok := v.federations[d.Federation]
		if !ok {
			return
		}
		at, generation = f.rec.Coordinator(), f.rec.Generation
		for _, replica := range v.situation(f.rec).replicas {
			if h := replica.held(); h != nil {
				highest = max(highest, h.Generation)
			}
		}
	})
	if at == nil {
		return notFound("the federation is gone")
	}
	if highest > generation+maxJump {
		return &Error{Code: CodeFailedPrecondition, Message: fmt.Sprintf(
			"generation %d is reported and the store has %d: that is more than a history can have lost; look at the service on %s", highest, generation, d.ClusterID)}
	}
	r.generation = highest + 1
	_, err := c.change(ctx, change{
		caller: caller, service: at.ServiceName, clusterID: at.ClusterID, claim: claim{requestID: req.RequestID}, wait: req.Wait, resolve: r,
	}, fn)
	return err
}

// bury orders the end of an orphan: a tombstone for exactly its life and generation,
// with its memory beside it, which is all that compares it with anything.
func (c *ControlPlane) bury(ctx context.Context, req ResolveRequest, d *Difference) error {
	var clusterUID string
	c.state.read(func(v *View) {
		if n := v.nodes[d.ClusterID]; n != nil && n.desiredSelf.rec != nil {
			clusterUID = n.desiredSelf.rec.UID
		}
	})
	owner, group := d.Owner, d.GroupID
	if owner == "" {
		owner = identity.Admin
	}
	memory := &record.Deleted{
		V: record.Version, UID: d.UID, Federation: d.claims, GroupID: group, ClusterID: d.ClusterID, ClusterUID: clusterUID,
		ServiceName: d.ServiceName, Owner: owner, Generation: d.ClusterGeneration, Cause: record.CauseDeleted, DeletedAt: record.At(c.cfg.Now()),
	}
	return c.writeOrphan(ctx, orphanStep{
		cluster: d.ClusterID, service: d.ServiceName, deleted: versioned[record.Deleted]{rec: memory},
		put: &record.Desired{
			V: record.Version, Intent: record.IntentDelete, Federation: d.claims, GroupID: group, UID: d.UID,
			Generation: d.ClusterGeneration, Epoch: d.epoch, RequestID: req.RequestID, Owner: owner, Cause: record.CauseDeleted,
			Mark: record.Mark(c.serviceToken(d.UID)),
		},
	})
}

// insistOnEnd lets a tombstone of the store delete what is ahead of it.
func (c *ControlPlane) insistOnEnd(ctx context.Context, req ResolveRequest, d *Difference, accept *record.Branch) error {
	key, place := record.FederationKey(d.Federation), record.DesiredServiceKey(d.ClusterID, d.ServiceName)
	res, err := c.store.Update(ctx, store.Update{Keys: []string{key, place}, Build: func(v store.View, tx *store.Txn) error {
		fed, ok := v.KV(key)
		kv, there := v.KV(place)
		if !ok || !there {
			return notFound("the deletion has ended meanwhile")
		}
		t, err := store.Decode[record.Desired](kv)
		if err != nil {
			return err
		}
		if !t.Tombstone() || t.UID != d.UID {
			return notFound("the deletion has ended meanwhile")
		}
		t.RequestID = req.RequestID
		t.Past = record.Branched(t.Past, accept.Epoch, accept.Generation)
		if accept.Epoch == t.Epoch {
			t.Generation = max(t.Generation, accept.Generation)
		}
		tx.Expect(key)
		tx.PutBytes(key, fed.Value)
		tx.Touch(key)
		tx.Expect(place)
		tx.Put(place, t)
		return nil
	}})
	if err != nil {
		return err
	}
	return c.shows(ctx, res.Revision)
}
