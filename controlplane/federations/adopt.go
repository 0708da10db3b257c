package federations

import (
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// adoption is a service that stands alone and becomes a member of another federation of its
// owner. Its replica lives on: uid, token and buckets stay. Its own federation ends in the
// transaction of the change, and its jobs follow.
type adoption struct {
	sit view.Situation
	rev int64
	// desired is what the replica is asked for as a member.
	desired *record.Desired
}

func (a *adoption) replica() view.ReplicaState { return a.sit.Replicas[0] }

// adoptions are the services that a change takes into the federation f: of those that its graph
// adds the ones that the caller already has there, each alone in its federation.
func (c *Controller) adoptions(caller identity.Caller, f *record.Federation, g *topology.Graph) []*adoption {
	var alone []view.Versioned[record.Federation]
	c.state.Read(func(v *view.View) {
		for _, n := range g.Nodes {
			if !n.Replica() || holds(f, n.Member) {
				continue
			}
			d := v.Desired(n.Member.ClusterID, n.Member.ServiceName)
			if d.Rec == nil || d.Rec.Intent != record.IntentApply {
				continue
			}
			own, ok := v.Federations.Lookup(d.Rec.Federation)
			if ok && own.Rec.Owner == f.Owner && caller.MayChange(own.Rec.Owner) && standsAlone(own.Rec) && len(v.HeldReplicas(own.Rec)) == 0 {
				alone = append(alone, own)
			}
		}
	})
	var out []*adoption
	for _, own := range alone {
		if s, rev, ok := c.situation(own.Rec.UID); ok && rev == own.Rev && s.Understood() == nil {
			out = append(out, &adoption{sit: s, rev: rev})
		}
	}
	return out
}

// leftovers are those of former federations that jobs or refresh tokens in the store name.
func (c *Controller) leftovers(former []string) (out []string) {
	c.state.Read(func(v *view.View) {
		for _, uid := range former {
			if !v.Jobs.ByFederation.Of(uid).Empty() || v.Tokens.Has(uid) {
				out = append(out, uid)
			}
		}
	})
	return out
}

// holds says whether a federation has, or just loses, a replica at the location of a member.
func holds(f *record.Federation, m oscar.Member) bool {
	return slices.ContainsFunc(slices.Concat(f.Members, f.Leaving), func(o record.Member) bool {
		return o.ClusterID == m.ClusterID && o.ServiceName == m.ServiceName
	})
}

// standsAlone says whether a federation is one replica at which nothing is under way.
func standsAlone(f *record.Federation) bool {
	return f.Phase == record.PhaseReady && len(f.Members) == 1 && f.Change == nil && len(f.Leaving) == 0 && !f.Halted()
}

// adopt gives the members of the next generation that are adopted their uids, and the generation
// a number above theirs: the services on the clusters carry those. former are the federations
// adopted from before of which something is left.
func (d *ChangeDraft) adopt(all []*adoption, former []string) {
	d.adopted, d.Next.Former = all, former
	for _, a := range all {
		own := a.replica().At
		i := slices.IndexFunc(d.Next.Members, func(m record.Member) bool {
			return m.Replica() && m.ClusterID == own.ClusterID && m.ServiceName == own.ServiceName
		})
		d.Next.Members[i].UID = own.UID
		d.Next.Generation = max(d.Next.Generation, a.sit.Fed.Generation+1)
		d.Next.Former = slices.Concat(d.Next.Former, a.sit.Fed.Former, []string{a.sit.Fed.UID})
	}
}

// adopts notes what an adopted replica is asked for; false for one that is not adopted.
func (d *ChangeDraft) adopts(made *record.Desired) bool {
	i := slices.IndexFunc(d.adopted, func(a *adoption) bool { return a.replica().At.UID == made.UID })
	if i < 0 {
		return false
	}
	old := *d.adopted[i].replica().Desired
	old.Advance(d.Next.Epoch, d.Next.Generation)
	made.Intent, made.Deadline, made.Past = record.IntentApply, nil, old.Past
	d.adopted[i].desired = made
	return true
}

// checkAdoptions refuses adoptions that the change cannot make.
func (d *ChangeDraft) checkAdoptions(volumes func(*adoption) bool) error {
	for _, a := range d.adopted {
		at := a.replica().At.ClusterID + "/" + a.replica().At.ServiceName
		switch {
		case len(d.Added) > 0 && d.Next.Deployment != oscar.DeploymentBestEffort:
			return &fault.Error{Code: fault.CodeConflict, Message: at + ": this service exists, and other new members do not, whose clusters vote first: add what exists in a request of its own"}
		case !volumes(a):
			return &fault.Error{Code: fault.CodeConflict, Message: at + ": this service exists with another volume, and OSCAR changes none: delete it first; its volume stays"}
		}
	}
	return nil
}

// expectAdoptable compares the federations that end with the adoption.
func (d *ChangeDraft) expectAdoptable(v store.View, tx *store.Txn) error {
	for _, a := range d.adopted {
		key := record.FederationKey(a.sit.Fed.UID)
		if kv, ok := v.KV(key); !ok || kv.ModRevision != a.rev {
			return gate.ErrStale
		}
		tx.Expect(key)
	}
	return nil
}

// putAdoptions ends the federations of the adopted replicas.
func (d *ChangeDraft) putAdoptions(tx *store.Txn) error {
	for _, a := range d.adopted {
		end := decide.Decision{Step: decide.StepAdopted, RemoveFed: true, DropName: true, Fed: &a.sit.Fed}
		end.Fed.By, end.Fed.RequestID = d.Next.By, d.Next.RequestID
		end.Fed.Detail = fmt.Sprintf("it is a member of federation %q now", d.Next.GroupID)
		if err := putDecision(end, a.sit, tx); err != nil {
			return err
		}
	}
	return nil
}

// putAdopted are the desired records of the adopted replicas.
func (d *ChangeDraft) putAdopted() (out []gate.Placed) {
	for _, a := range d.adopted {
		out = append(out, decide.PlacedAt(a.replica(), a.desired))
	}
	return out
}
