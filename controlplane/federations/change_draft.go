package federations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// ChangeDraft is a prepared attempt at a change.
type ChangeDraft struct {
	ch Change
	// Sit is the situation that it was decided on, and Rev the revision of the federation then.
	Sit view.Situation
	Rev int64
	// Fence is the revision at which the clusters were validated. Nothing was staged before it.
	Fence int64
	// Old and Service are the definitions before and after, with their secrets.
	Old, Service *oscar.Service
	// Differs is false when nothing is to be written.
	Differs    bool
	Next       record.Federation
	specs      map[string]string
	Added      []gate.Placed
	adopted    []*adoption
	Rendered   []Rendered
	before     []gate.Staged
	definition []gate.Staged
}

// DraftChange makes everything that a change writes. It writes nothing. A definition that asks
// for the same as the present one, after defaults and kept secrets, does not differ. With an
// error about the edited definition it also returns the draft.
func (c *Controller) DraftChange(ctx context.Context, ch Change, p view.MemberRef, fn Edit) (*ChangeDraft, error) {
	old, known, err := c.current(ctx, p.Rec)
	if errors.Is(err, store.ErrNotFound) {
		return nil, c.withoutDefinition(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	s, err := fn(old)
	if err != nil {
		return nil, err
	}
	// The transaction will compare the revision of this situation. It must be the one
	// that was found changeable, and that If-Match was held against.
	sit, rev, ok := c.situation(p.UID)
	if !ok || rev != p.Rev {
		return nil, gate.ErrStale
	}
	if err := sit.Understood(); err != nil {
		return nil, err
	}
	d := &ChangeDraft{ch: ch, Sit: sit, Rev: rev, Old: old, Service: s,
		Differs: ch.Resolve != nil || !sameDefinition(s, old, p.Rec), specs: map[string]string{}}
	if !d.Differs {
		d.Next, d.Service = sit.Fed, old
		return d, nil
	}
	if !topology.SameVolume(s, old) {
		return d, &fault.Error{Code: fault.CodeInvalid, Message: "volume updates are not supported after service creation: " +
			"send the volume as it was submitted, or delete the service and create it again; its volume stays, and is used again under its name"}
	}
	if p.Rec.SecretsLost && ch.Resolve == nil && !ch.removal.only {
		if err := lostSecrets(s); err != nil {
			return d, err
		}
	}
	if forgotten := unknownSecrets(s, old); ch.back != 0 && len(forgotten) > 0 {
		return d, valuesMissing(fmt.Sprintf("generation %d has secrets that were left out since", ch.back), forgotten,
			"its value is not kept: apply the definition with it, or without the secret")
	}
	var stands *oscar.Service
	switch {
	case ch.Resolve != nil && ch.Resolve.Shown:
		stands = s
	case ch.removal.only || ch.Resolve != nil:
		stands = old
	}
	g, fence, err := c.validateChange(ch.Caller, s.Clone(), p.Rec, stands) // it is kept as it was submitted
	if err == nil && !delegates(old) && delegates(s) {
		err = c.holdsRefreshToken(ctx, ch, p.Rec)
	}
	if err != nil {
		return d, err
	}
	d.Fence = fence
	d.Next = nextGeneration(sit, s, g, ch.Claim.RequestID, ch.Resolve)
	d.Next.By = ch.Caller.Subject
	switch {
	case ch.Resolve != nil:
		d.Next.By = cmp.Or(ch.Resolve.By, d.Next.By)
		d.Next.SecretsLost = d.Next.SecretsLost || len(unknownSecrets(s, old)) > 0
	case !ch.removal.only:
		d.Next.SecretsLost = false
	}
	if ch.Resolve == nil && !ch.removal.only {
		d.adopt(c.adoptions(ch.Caller, p.Rec, g), c.leftovers(d.Next.Former))
	}
	r := c.Renderer(s, g, d.Next)
	if r.known, err = c.alsoKnown(ctx, p.Rec, ch.back, known); err != nil {
		return d, err
	}
	attempt := record.NewUID() // what another attempt of this request has written stays as it is
	r.Name = func(service, uid string) string {
		return record.ChangedSpecName(service, uid, d.Next.Generation, attempt)
	}
	if err := r.neverConnected(d.Next); err != nil {
		return d, err
	}
	if !ch.removal.only && ch.Resolve == nil {
		if err := r.checkSecrets(d.Next.Members); err != nil {
			return d, err
		}
	}
	desired, err := c.renderChange(r, d)
	if err != nil {
		return d, err
	}
	for _, p := range d.Added {
		if err := c.locationTaken(p.Cluster, p.Service); err != nil {
			return d, err
		}
	}
	err = d.checkAdoptions(func(a *adoption) bool {
		own, _, err := c.current(ctx, &a.sit.Fed)
		return err == nil && topology.SameVolume(s, own)
	})
	if err != nil || ch.removal.only || ch.Resolve != nil {
		return d, err // what takes away is never refused for its size
	}
	if err := checkMembersFit(&sit.Fed, d.Next.Members); err != nil {
		return d, err
	}
	return d, c.sizeCheckOf(d.Next, desired, d.definition).checkChange()
}

// withoutDefinition says why the definition of a federation is missing: a newer generation has
// replaced it, or it is lost.
func (c *Controller) withoutDefinition(ctx context.Context, p view.MemberRef) error {
	if err := c.gate.Fresh(ctx); err != nil {
		return err
	}
	if _, rev, ok := c.situation(p.UID); !ok || rev != p.Rev {
		return gate.ErrStale
	}
	return &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf(
		"the definition of federation %q is not in the store any more, so it cannot be changed; delete it, which keeps its buckets, and create it again", p.Rec.GroupID)}
}

// sameDefinition says whether two definitions of a federation, with their secrets, ask for
// the same. Completing one hides the keys of minio.default.
func sameDefinition(a, b *oscar.Service, f *record.Federation) bool {
	home := f.Coordinator().ClusterID
	return oscar.SameDefaultMinIOKeys(a, b) && oscar.Equal(topology.Complete(a, home, f.GroupID), topology.Complete(b, home, f.GroupID))
}

// unknownSecrets are the secrets of the environment that a definition has without a value, and the present one not at all: an
// older generation is kept without values, and no cluster shows them.
func unknownSecrets(s, old *oscar.Service) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(s.Environment.Secrets)) {
		if _, known := old.Environment.Secrets[key]; !known && s.Environment.Secrets[key] == "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// lostSecrets refuses a definition with secrets that a restore has lost: they would be emptied on the clusters, which
// still have the values.
func lostSecrets(s *oscar.Service) error {
	lost := slices.DeleteFunc(slices.Sorted(maps.Keys(s.Environment.Secrets)), func(key string) bool { return s.Environment.Secrets[key] != "" })
	if len(lost) == 0 {
		return nil
	}
	return valuesMissing("secrets were lost when the store was restored", lost,
		"its value was lost when the store was restored, and this change would empty it on the clusters: give it again, or send environment.secrets without it")
}

func valuesMissing(what string, keys []string, why string) error {
	e := &fault.Error{Code: fault.CodeInvalid, Message: what}
	for _, key := range keys {
		e.Violations = append(e.Violations, oscar.Violation{Path: "environment.secrets." + key, Rule: oscar.RuleRequired, Message: why})
	}
	return e
}

// nextGeneration is the next record of the federation. Members that stay keep their uid.
func nextGeneration(sit view.Situation, s *oscar.Service, g *topology.Graph, requestID string, resolve *Resolution) record.Federation {
	f := sit.Fed
	next := f
	next.Epoch = sit.Epoch
	next.Generation++
	lives := map[string]string{}
	if resolve != nil {
		next.Generation = max(next.Generation, resolve.Generation)
		if resolve.Back != nil {
			lives[resolve.Back.ClusterID+"/"+resolve.Back.ServiceName] = resolve.UID
		}
	}
	next.RequestID, next.Topology, next.Delegation, next.Drift = requestID, g.Topology, g.Delegation, g.Drift
	next.ReschedulerThreshold, next.Visibility, next.AllowedUsers, next.Prefetch = g.ReschedulerThreshold, s.Visibility, allowedUsers(s), s.ImagePrefetch
	if !s.Exposed() {
		next.RunState = ""
	}
	next.ChangedAt = record.At(sit.Now)
	next.Members = nil
	for _, m := range f.Members {
		lives[m.ClusterID+"/"+m.ServiceName] = m.UID
	}
	for _, n := range g.Nodes {
		m := Member(n)
		if n.Replica() {
			m.UID = lives[m.ClusterID+"/"+m.ServiceName]
			if m.UID == "" {
				m.UID = record.NewUID()
			}
		}
		next.Members = append(next.Members, m)
	}
	return next
}

// bytes estimates how many bytes the change writes.
func (d *ChangeDraft) bytes() int64 {
	desired := slices.Clone(d.Added)
	for _, r := range d.Sit.Replicas {
		if r.Desired != nil {
			desired = append(desired, decide.PlacedAt(r, r.Desired))
		}
	}
	return gate.BytesThrough(d.Next, desired, slices.Concat(d.before, d.definition)...)
}

// renderChange renders the next generation into the draft, and returns what is desired then.
func (c *Controller) renderChange(r *Renderer, d *ChangeDraft) (all []gate.Placed, err error) {
	until := record.At(d.Sit.Now.Add(c.limits.PrepareDeadline))
	made, err := r.Replicas(d.Next.Members)
	if err != nil {
		return nil, err
	}
	for _, one := range made {
		desired := one.Desired
		all = append(all, desired)
		d.before = append(d.before, one.Spec)
		d.Rendered = append(d.Rendered, one.what)
		if view.MemberOf(d.Sit.Fed.Members, desired.Rec.UID) >= 0 {
			d.specs[desired.Rec.UID] = desired.Rec.Spec
			continue
		}
		if d.adopts(desired.Rec) {
			continue
		}
		if r := d.ch.Resolve; r != nil && r.Back != nil && desired.Rec.UID == r.UID {
			// It was voted for and applied in the lost history.
			desired.Rec.Intent, desired.Rec.Deadline = record.IntentApply, nil
			r.apply(desired.Rec)
			d.Added = append(d.Added, desired)
			continue
		}
		desired.Rec.Deadline = &until
		if d.Next.Deployment == oscar.DeploymentBestEffort {
			desired.Rec.Deadline = nil
		}
		d.Added = append(d.Added, desired)
	}
	if d.definition, err = r.DefinitionRecords(); err != nil {
		return nil, err
	}
	names, shared := r.Parts()
	d.Next.Parts, d.before = names, append(shared, d.before...)
	return all, nil
}
