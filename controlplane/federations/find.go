package federations

import (
	"context"
	"errors"
	"fmt"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Replicas shows a federation as the named replica sees it.
func (c *Controller) Replicas(ctx context.Context, caller identity.Caller, service, clusterID string) (*view.Replicas, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	return c.seenBy(caller, service, clusterID)
}

// seenBy is Replicas as the state knows it, at one revision.
func (c *Controller) seenBy(caller identity.Caller, service, clusterID string) (*view.Replicas, error) {
	var shown view.Replicas
	var err error
	c.state.Read(func(v *view.View) {
		var p view.MemberRef
		if p, err = v.FindWithResult(caller, service, clusterID); err == nil {
			shown = view.AsSeen(v.Show(p.Rec, p.Rev).Federation, p.Member)
			shown.StreamRevision = v.Revision
			if t := v.RefreshToken(p.Rec, c.cfg.RefreshTokenMaxAge); t.State != view.TokenNone && caller.MayChange(p.Rec.Owner) {
				shown.RefreshToken = &t
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return &shown, nil
}

// Get finds one by its uid or by its group_id: the caller's own first, of his
// own and of others' a living one before a result.
func (c *Controller) Get(ctx context.Context, caller identity.Caller, ref string) (*view.Federation, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	var best *record.Federation
	var out view.Federation
	c.state.Read(func(v *view.View) {
		found := v.FederationNamed(caller, ref)
		if best = found.Rec; best == nil {
			return
		}
		out = v.Show(best, found.Rev).Federation
		if caller.MayChange(best.Owner) {
			out.RefreshToken = v.TokenOf(best, c.cfg.RefreshTokenMaxAge)
		}
	})
	if best == nil {
		return nil, fault.NotFound(fmt.Sprintf("there is no federation %q", ref))
	}
	return &out, c.storageOf(ctx, best, &out)
}

// storageOf fills in where the inputs and outputs of every replica are, as
// provider:path. A provider that is the cluster's own means that cluster's MinIO.
func (c *Controller) storageOf(ctx context.Context, rec *record.Federation, fed *view.Federation) error {
	s, err := c.Definition(ctx, rec)
	if errors.Is(err, store.ErrNotFound) {
		return nil // a result, or deleted meanwhile
	}
	if err != nil {
		return fault.Crossing(err)
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
	c.state.Read(func(v *view.View) {
		for i, m := range fed.Members {
			at := view.MemberOf(rec.Members, m.UID)
			if m.Status == nil || at < 0 {
				continue
			}
			fed.Members[i].Storage = v.StorageOf(view.MemberRef{UID: rec.UID, Member: at, Rec: rec}, s)
		}
	})
	return nil
}

// federationByUID shows one federation as the state knows it.
func (c *Controller) federationByUID(uid string) (view.Shown, bool) {
	var out view.Shown
	found := false
	c.state.Read(func(v *view.View) {
		if f, ok := v.Federations.Lookup(uid); ok {
			found, out = true, v.Show(f.Rec, f.Rev)
		}
	})
	return out, found
}
