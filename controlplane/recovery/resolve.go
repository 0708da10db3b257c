package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// ResolveRequest says which side of one difference to keep.
type ResolveRequest struct {
	ClusterID, ServiceName string
	// Keep is v1.KeepCluster or v1.KeepStore.
	Keep      string
	RequestID string
	// Wait is how long to wait until it is carried out.
	Wait time.Duration
	// by is the subject of the person who decides.
	by string
}

// entry is what the audit says of a decision about a difference.
func (r ResolveRequest) entry(d *difference, outcome record.Outcome) record.Audit {
	return record.Audit{
		By: r.by, Action: record.ActionResolve, Outcome: outcome, Federation: cmp.Or(d.Federation, d.claims), Owner: d.Owner, GroupID: d.GroupID,
		Generation: d.ClusterGeneration, ClusterID: d.ClusterID, RequestID: r.RequestID, Detail: d.ServiceName + ": keep " + r.Keep,
	}
}

// maxJump bounds how far a report can raise the generation of a federation: a hostile report could
// otherwise exhaust the numbers.
const maxJump = 1_000_000

// maxGeneration bounds the generation with which a federation that the store has lost comes back, so that further ones can
// follow, and clients can tell them apart.
const maxGeneration = 1 << 52

// Resolve resolves one difference as a person decides, and returns it as it was before.
func (c *Controller) Resolve(ctx context.Context, caller identity.Caller, req ResolveRequest) (*v1.Difference, error) {
	req.RequestID, req.by = request.ID(req.RequestID), caller.Subject
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	d, err := c.difference(caller, req)
	if err != nil {
		return nil, err
	}
	take := c.keepStore
	does := d.KeepStore
	if req.Keep == v1.KeepCluster {
		take, does = c.keepCluster, d.KeepCluster
	}
	if does == "" {
		return nil, &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf(
			"%s/%s is %s, and keeping what the %s has is not possible; oscarfed describe says what is", d.ClusterID, d.ServiceName, d.Kind, req.Keep)}
	}
	err = take(ctx, caller, req, d)
	if errors.Is(err, gate.ErrStale) {
		err = &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf("%s/%s has changed meanwhile; look again", d.ClusterID, d.ServiceName)}
	}
	return &d.Difference, fault.Crossing(err)
}

// difference finds what a request is about.
func (c *Controller) difference(caller identity.Caller, req ResolveRequest) (*difference, error) {
	if req.Keep != v1.KeepCluster && req.Keep != v1.KeepStore {
		return nil, fault.Invalid(oscar.Violation{
			Path: "keep", Rule: oscar.RuleOneOf, Value: req.Keep, Message: "keep is cluster or store"})
	}
	var found *difference
	c.state.Read(func(v *view.View) {
		for _, d := range differences(v, c.tokens.ServiceToken) {
			if d.ClusterID == req.ClusterID && d.ServiceName == req.ServiceName && (caller.Administrator || d.Owner != "" && caller.MayChange(d.Owner)) {
				d.foundIn = v.Epoch()
				found = &d
			}
		}
	})
	if found == nil {
		return nil, fault.NotFound(fmt.Sprintf("%s/%s does not differ from the store, as far as its cluster has compared", req.ClusterID, req.ServiceName))
	}
	if found.Kind == v1.DifferenceOrphan && !caller.Administrator {
		return nil, fault.AdminOnly("resolve orphans")
	}
	return found, nil
}

func (c *Controller) keepStore(ctx context.Context, caller identity.Caller, req ResolveRequest, d *difference) error {
	accept := &record.Branch{Epoch: d.ClusterEpoch, Generation: d.ClusterGeneration}
	switch {
	case d.Kind == v1.DifferenceOrphan:
		return c.deleteOrphan(ctx, req, d)
	case d.tombstone:
		return c.amendTombstone(ctx, req, d, accept)
	case d.Kind == v1.DifferenceMissing:
		accept = nil
	}
	return c.rewrite(ctx, caller, req, d, &federations.Resolution{UID: d.UID, Accept: accept, Again: d.Kind == v1.DifferenceMissing},
		func(old *oscar.Service) (*oscar.Service, error) { return old, nil })
}

func (c *Controller) keepCluster(ctx context.Context, caller identity.Caller, req ResolveRequest, d *difference) error {
	switch {
	case d.Kind == v1.DifferenceAhead, d.Kind == v1.DifferenceOrphan && d.Federation == "":
		return c.ask(ctx, req, d)
	case d.Kind == v1.DifferenceMissing && d.origin:
		_, err := c.federations.DeleteService(ctx, caller, d.ServiceName, federations.DeleteOptions{ClusterID: d.ClusterID, RequestID: req.RequestID, Wait: req.Wait})
		return err
	case d.Kind == v1.DifferenceMissing:
		remove := federations.ReplicasRequest{Remove: []oscar.Member{{Type: oscar.MemberOSCAR, ClusterID: d.ClusterID, ServiceName: d.ServiceName}}}
		return c.rewrite(ctx, caller, req, d, &federations.Resolution{UID: d.UID}, membersBy(remove))
	}
	// An orphan of a federation that the store has.
	back := oscar.Member{Type: oscar.MemberOSCAR, ClusterID: d.ClusterID, ServiceName: d.ServiceName}
	return c.rewrite(ctx, caller, req, d, &federations.Resolution{
		UID: d.UID, Accept: &record.Branch{Epoch: d.ClusterEpoch, Generation: d.ClusterGeneration}, Again: true, Back: &back,
	}, membersBy(federations.ReplicasRequest{Add: []oscar.Member{back}}))
}

// membersBy is the edit of a request about members.
func membersBy(req federations.ReplicasRequest) federations.Edit {
	return func(old *oscar.Service) (*oscar.Service, error) {
		s := old.Clone()
		members, err := req.Apply(federations.OfService(s).Members)
		if err != nil {
			return nil, err
		}
		s.Federation.Members = members
		return s, nil
	}
}

// rewrite is one change over the whole federation, above every generation that is
// reported of it and that its history can have had: a report of another one holds up no
// decision about the others.
func (c *Controller) rewrite(ctx context.Context, caller identity.Caller, req ResolveRequest, d *difference, r *federations.Resolution, fn federations.Edit) error {
	var at *record.Member
	generation, highest := int64(0), d.ClusterGeneration
	c.state.Read(func(v *view.View) {
		f, ok := v.Federations.Lookup(d.Federation)
		if !ok {
			return
		}
		at, generation = f.Rec.Coordinator(), f.Rec.Generation
		for _, replica := range v.Situation(f.Rec).Replicas {
			if h := replica.Held(); h != nil && h.Generation <= generation+maxJump {
				highest = max(highest, h.Generation)
			}
		}
	})
	if at == nil {
		return fault.NotFound("the federation is gone")
	}
	if highest > generation+maxJump {
		return &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf(
			"generation %d is reported and the store has %d: that is more than a history can have lost; look at the service on %s", highest, generation, d.ClusterID)}
	}
	r.Generation = highest + 1
	_, err := c.federations.Change(ctx, federations.Change{
		Caller: caller, Service: at.ServiceName, ClusterID: at.ClusterID, Claim: request.Claim{RequestID: req.RequestID}, Wait: req.Wait, Resolve: r,
	}, fn)
	return err
}

// deleteOrphan orders the deletion of an orphan: a tombstone for exactly its life and generation, and
// its deleted record, which later steps compare.
func (c *Controller) deleteOrphan(ctx context.Context, req ResolveRequest, d *difference) error {
	var clusterUID string
	c.state.Read(func(v *view.View) {
		if n := v.Nodes.Get(d.ClusterID); n.DesiredSelf.Rec != nil {
			clusterUID = n.DesiredSelf.Rec.UID
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
		epoch: d.foundIn, cluster: d.ClusterID, service: d.ServiceName, deleted: view.Versioned[record.Deleted]{Rec: memory},
		entry: new(req.entry(d, record.OutcomeDone)),
		put: &record.Desired{
			V: record.Version, Intent: record.IntentDelete, Federation: d.claims, GroupID: group, UID: d.UID,
			Generation: d.ClusterGeneration, Epoch: d.ClusterEpoch, RequestID: req.RequestID, Owner: owner, Cause: record.CauseDeleted,
			Mark: record.Mark(c.tokens.ServiceToken(d.UID)),
		},
	})
}

// amendTombstone lets a tombstone of the store delete what is ahead of it.
func (c *Controller) amendTombstone(ctx context.Context, req ResolveRequest, d *difference, accept *record.Branch) error {
	key, place := record.FederationKey(d.Federation), record.DesiredServiceKey(d.ClusterID, d.ServiceName)
	res, err := c.store.Update(ctx, store.Update{Keys: []string{record.MetaKey, key, place}, Build: func(v store.View, tx *store.Txn) error {
		if err := gate.DecidedIn(v, tx, d.foundIn); err != nil {
			return err
		}
		fed, ok := v.KV(key)
		kv, there := v.KV(place)
		if !ok || !there {
			return fault.NotFound("the deletion has ended meanwhile")
		}
		t, err := store.Decode[record.Desired](kv)
		if err != nil {
			return err
		}
		if !t.Tombstone() || t.UID != d.UID {
			return fault.NotFound("the deletion has ended meanwhile")
		}
		if t.RequestID == req.RequestID {
			return nil // an answer was lost
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
		request.Note(tx, c.cfg.Now(), req.entry(d, record.OutcomeDone))
		return nil
	}})
	if err != nil {
		return err
	}
	return c.gate.Shows(ctx, res.Revision)
}
