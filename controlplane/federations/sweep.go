package federations

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// SweepStaged removes staged records that two sweeps have found unreferenced. The instance that
// staged them may have slept, and may commit at this moment. Its transaction compares the fence
// as it was before the staging. So once the fence is bumped, either that transaction has
// committed, which is seen here, or it never will, and the instance stages again.
func (c *Controller) SweepStaged(ctx context.Context, items []store.KV) error {
	if len(items) == 0 {
		return nil
	}
	res, err := c.store.Update(ctx, store.Update{Keys: []string{record.FenceKey}, Build: func(v store.View, tx *store.Txn) error {
		return gate.BumpFence(v, tx, "swept")
	}})
	if err != nil {
		return err
	}
	if err := c.gate.Shows(ctx, res.Revision); err != nil {
		return err
	}
	unreferenced, err := c.Unreferenced(ctx, items)
	if err != nil {
		return err
	}
	for _, kv := range unreferenced {
		if err := c.gate.DeleteAsRead(ctx, kv); err != nil {
			return err
		}
	}
	return nil
}

// Unreferenced are those of the specs, histories, secrets, parts and tokens that no living record
// refers to. For parts of federations that live it reads the records that may name them, and keeps all while one of those
// cannot be read.
func (c *Controller) Unreferenced(ctx context.Context, items []store.KV) (out []store.KV, err error) {
	named := map[string]map[string]bool{}
	for _, kv := range items {
		if c.referenced(kv.Key) {
			continue
		}
		ref := record.ParseKey(kv.Key)
		if ref.Kind == record.KindPart {
			names, read := named[ref.Name]
			if !read {
				names, err = c.namedParts(ctx, ref.Name)
				if _, corrupt := errors.AsType[*store.CorruptError](err); corrupt {
					c.cfg.Logger.Error("a record cannot be read: the parts of its federation stay", "federation", ref.Name, "error", err)
					names, err = nil, nil
				}
				if err != nil {
					return nil, err
				}
				named[ref.Name] = names
			}
			if names == nil || names[ref.Rest] {
				continue
			}
		}
		out = append(out, kv)
	}
	return out, nil
}

// namedParts are the parts that the records of a living federation name: its history, its
// secrets, and the specs of its replicas.
func (c *Controller) namedParts(ctx context.Context, uid string) (map[string]bool, error) {
	out := map[string]bool{}
	var specs []string
	living := false
	c.state.Read(func(v *view.View) {
		f, ok := v.Federations.Lookup(uid)
		if living = ok; !ok {
			return
		}
		members := slices.Concat(f.Rec.Members, f.Rec.Leaving)
		if f.Rec.Change != nil {
			members = append(members, f.Rec.Change.Members...)
			for _, m := range members {
				if spec := f.Rec.Change.Specs[m.UID]; spec != "" {
					specs = append(specs, record.SpecKey(m.ClusterID, spec))
				}
			}
		}
		for _, m := range members {
			if d := v.Desired(m.ClusterID, m.ServiceName).Rec; d != nil && d.Federation == uid && d.Spec != "" {
				specs = append(specs, record.SpecKey(m.ClusterID, d.Spec))
			}
		}
	})
	if !living {
		return out, nil
	}
	take := func(kv store.KV) error {
		var rec struct {
			Parts []string `json:"parts"`
		}
		if err := json.Unmarshal(kv.Value, &rec); err != nil {
			return &store.CorruptError{Key: kv.Key, Err: err}
		}
		for _, name := range rec.Parts {
			out[name] = true
		}
		return nil
	}
	for _, prefix := range []string{record.HistoryPrefix, record.SecretsPrefix} {
		items, err := c.store.ListKeys(ctx, prefix+uid+"/")
		if err != nil {
			return nil, err
		}
		for _, kv := range items {
			specs = append(specs, kv.Key)
		}
	}
	return out, c.store.Each(ctx, specs, take)
}

// over says that a federation in a phase has no secrets any more.
func over(p record.Phase) bool {
	return p != record.PhasePreparing && p != record.PhaseApplying && p != record.PhaseReady
}

// referenced says whether a living record refers to a spec, a history, secrets, tokens, or a
// part of a present or next generation.
func (c *Controller) referenced(key string) bool {
	ref := record.ParseKey(key)
	found := false
	c.state.Read(func(v *view.View) {
		switch ref.Kind {
		case record.KindHistory, record.KindSecrets:
			_, found = v.Federations.Lookup(ref.Name)
		case record.KindTokens:
			f := v.Federations.Get(ref.Name).Rec
			found = f != nil && (!f.Phase.Result() || f.Phase == record.PhaseRolledBack) && v.OnCluster.Has(ref.Cluster, ref.Name)
		case record.KindPart:
			f := v.Federations.Get(ref.Name).Rec
			found = f != nil && !over(f.Phase) && (slices.Contains(f.Parts, ref.Rest) || f.Change != nil && slices.Contains(f.Change.Parts, ref.Rest))
		case record.KindSpec:
			d := v.Desired(ref.Cluster, ref.Name)
			found = d.Rec != nil && (d.Rec.Spec == ref.Name+"/"+ref.Rest || v.Proposed(d.Rec, ref.Name+"/"+ref.Rest))
		default:
			found = true // its life does not end here
		}
	})
	return found
}
