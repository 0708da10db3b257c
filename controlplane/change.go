package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// edit turns the service as it was submitted last into what it shall be. It
// answers false when nothing is to be changed.
type edit func(s *oscar.Service) (*oscar.Service, bool, error)

// ChangeService replaces the definition of a federation; members that differ are
// part of the same change. It is one transaction over the whole topology, and
// converges replica by replica: one that fails takes no healthy one down.
func (c *ControlPlane) ChangeService(ctx context.Context, caller identity.Caller, req ChangeRequest) (*ChangeResult, error) {
	id := change{caller: caller, service: req.Service.Name, clusterID: req.Service.ClusterID, requestID: req.RequestID, ifMatch: req.IfMatch, wait: req.Wait, whole: true}
	req.Service.TakeRefreshToken()
	return c.change(ctx, id, func(old *oscar.Service) (*oscar.Service, bool, error) {
		s := req.Service.Clone()
		s.RestorePaths(old)
		_, before := oscar.SplitSecrets(old)
		public, now := oscar.SplitSecrets(s)
		patch, err := oscar.KeepSecrets(public, now, before)
		if err != nil {
			return nil, false, err
		}
		s, err = merge(public, patch)
		return s, err == nil && !oscar.Equal(s, old), err
	})
}

// ChangeReplicas adds, removes and replaces members.
func (c *ControlPlane) ChangeReplicas(ctx context.Context, caller identity.Caller, service string, req ReplicasRequest) (*ChangeResult, error) {
	id := change{caller: caller, service: service, clusterID: req.ClusterID, requestID: req.RequestID, ifMatch: req.IfMatch, wait: req.Wait}
	return c.change(ctx, id, func(old *oscar.Service) (*oscar.Service, bool, error) {
		s := old.Clone()
		members, err := req.apply(federationOf(s).Members)
		if err != nil {
			return nil, false, err
		}
		s.Federation.Members = members
		return s, !oscar.Equal(s, old), nil
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
	requestID string
	ifMatch   int64
	wait      time.Duration
	// whole says that the definition is replaced, which only its coordinator takes.
	whole bool
}

// change edits a federation until the edit is committed, refused or needless.
// Changes of others that come between are edited anew, unless If-Match forbids it.
func (c *ControlPlane) change(ctx context.Context, id change, fn edit) (*ChangeResult, error) {
	began := time.Now()
	if id.requestID == "" {
		id.requestID = newUID()
	}
	for {
		changed := c.state.watch()
		if err := c.fresh(ctx); err != nil {
			return nil, err
		}
		p, busy, err := c.changeable(id)
		if err != nil {
			return nil, err
		}
		if busy {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		err = c.tryChange(ctx, id, p, fn)
		if errors.Is(err, errStale) || errors.Is(err, errFence) {
			if id.ifMatch != 0 {
				return nil, conflictOf(p.rec)
			}
			continue
		}
		if err != nil {
			return nil, crossing(err)
		}
		return c.awaitChange(ctx, id, p.uid, id.wait-time.Since(began))
	}
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
		return p, false, &Error{Code: CodeForbidden, Message: fmt.Sprintf("service %q can be changed by its owner only", id.service)}
	case id.whole && !p.at().Coordinator:
		return p, false, &Error{Code: CodeConflict, Candidates: []string{at.ClusterID}, Message: fmt.Sprintf(
			"service %q is a member of federation %q; change its coordinator %s/%s", id.service, f.GroupID, at.ClusterID, at.ServiceName)}
	case f.Phase != record.PhaseReady:
		return p, false, &Error{Code: CodeConflict, Message: fmt.Sprintf("federation %q is %s; wait for its outcome, or delete it", f.GroupID, f.Phase)}
	case id.ifMatch != 0 && c.revisionOf(p.uid) != id.ifMatch:
		return p, false, conflictOf(f)
	}
	return p, f.Change != nil, nil
}

func (c *ControlPlane) revisionOf(uid string) int64 {
	var rev int64
	c.state.read(func() { rev = c.state.federations[uid].rev })
	return rev
}

func conflictOf(f *record.Federation) error {
	return &Error{Code: CodeConflict, Message: fmt.Sprintf("federation %q has been changed since; GET it again and decide anew", f.GroupID)}
}

// tryChange writes one attempt: the whole change when nobody has to vote, else
// the prepare records of the members that it adds.
func (c *ControlPlane) tryChange(ctx context.Context, id change, p place, fn edit) error {
	old, err := c.withSecrets(ctx, p.rec)
	if errors.Is(err, store.ErrNotFound) {
		return errStale // a newer generation has taken its place
	}
	if err != nil {
		return err
	}
	s, differs, err := fn(old)
	if err != nil || !differs {
		return err
	}
	g, fence, err := c.validateChange(s, p.rec)
	if err != nil {
		return err
	}
	sit, rev, ok := c.decider.situation(p.uid)
	if !ok || sit.fed.Change != nil || sit.fed.Generation != p.rec.Generation {
		return errStale
	}
	next := nextGeneration(sit.fed, s, g, id.requestID, sit.now)
	r := c.renderer(s, g, next)
	r.name = func(service, uid string) string {
		return record.ChangedSpecName(service, uid, next.Generation, id.requestID)
	}
	if err := r.neverConnected(next); err != nil {
		return err
	}
	d, err := c.draftChange(r, sit, next)
	if err != nil {
		return err
	}
	if err := c.stage(ctx, d.before); err != nil {
		return err
	}
	return c.commitChange(ctx, d, sit, rev, fence)
}

// withSecrets is the service as it was submitted last, secrets and all.
func (c *ControlPlane) withSecrets(ctx context.Context, f *record.Federation) (*oscar.Service, error) {
	public, err := c.submitted(ctx, f)
	if err != nil {
		return nil, err
	}
	kv, err := c.store.Get(ctx, record.SecretsKey(f.UID, f.Generation))
	if err != nil {
		return nil, err
	}
	sealed, err := store.Decode[record.Secrets](kv)
	if err != nil {
		return nil, err
	}
	patch, err := c.identity.Open(sealed.Sealed, seal.Header{Purpose: purposeSubmitted, UID: f.UID, Generation: f.Generation}, c.cfg.Now())
	if err != nil {
		return nil, fmt.Errorf("open the secrets of federation %s: %w", f.UID, err)
	}
	return merge(public, patch)
}

func merge(public *oscar.Service, patch []byte) (*oscar.Service, error) {
	doc, err := public.MarshalJSON()
	if err != nil {
		return nil, err
	}
	whole, err := oscar.MergePatch(doc, patch)
	if err != nil {
		return nil, err
	}
	s, violations := oscar.ParseService(whole)
	if len(violations) > 0 {
		return nil, fmt.Errorf("the service with its secrets cannot be read: %s: %s", violations[0].Path, violations[0].Message)
	}
	return s, nil
}

// validateChange is validate for a federation that stands: the clusters that it is
// on take it even when they take nothing new, and its group_id stays.
func (c *ControlPlane) validateChange(s *oscar.Service, f *record.Federation) (*topology.Graph, int64, error) {
	if s.ClusterID == "" {
		s.ClusterID = f.Coordinator().ClusterID
	}
	fed := federationOf(s)
	if fed.GroupID == "" {
		fed.GroupID = f.GroupID
	}
	clusters := map[string]string{}
	var fence int64
	c.state.read(func() {
		fence = c.state.fence
		for id, reg := range c.state.clusters {
			clusters[id] = string(reg.rec.State)
		}
	})
	for _, m := range f.Members {
		if _, ok := clusters[m.ClusterID]; ok {
			clusters[m.ClusterID] = string(record.ClusterActive)
		}
	}
	g, violations := topology.FromService(s, topology.Env{DefaultCluster: c.cfg.DefaultCluster, Clusters: clusters})
	if g != nil && g.GroupID != f.GroupID {
		violations = append(violations, oscar.Violation{Path: "federation.group_id", Rule: oscar.RuleUnique, Value: g.GroupID,
			Message: fmt.Sprintf("a federation keeps its group_id %q; create another one under the new name", f.GroupID)})
	}
	if len(violations) == 0 {
		if touched := touchedBy(f, g); touched > maxReplicas {
			violations = append(violations, oscar.Violation{Path: "federation.members", Rule: oscar.RuleMaxMembers, Value: touched,
				Message: fmt.Sprintf("one change touches at most %d replicas, removed ones counted; make it in two", maxReplicas)})
		}
	}
	if len(violations) > 0 {
		return nil, 0, &Error{Code: CodeInvalid, Message: fmt.Sprintf("%d violations", len(violations)), Violations: violations}
	}
	return g, fence, nil
}

// maxReplicas of a federation, and of those that one change touches: etcd's 128
// operations of a transaction, less what goes with them.
const maxReplicas = 120

func touchedBy(f *record.Federation, g *topology.Graph) int {
	n := 0
	d := topology.Diff(graphOf(f), g)
	for _, nodes := range [][]topology.Node{d.Added, d.Removed, d.Kept, d.Changed} {
		for _, node := range nodes {
			if node.Replica() {
				n++
			}
		}
	}
	return n
}

// nextGeneration is the federation as it will be; members that stay keep their life.
func nextGeneration(f record.Federation, s *oscar.Service, g *topology.Graph, requestID string, now time.Time) record.Federation {
	next := f
	next.Generation++
	next.RequestID, next.Topology, next.Delegation, next.Drift = requestID, g.Topology, g.Delegation, g.Drift
	next.ReschedulerThreshold, next.Visibility, next.AllowedUsers, next.Prefetch = g.ReschedulerThreshold, s.Visibility, s.AllowedUsers, s.ImagePrefetch
	next.ChangedAt = record.At(now)
	next.Members = nil
	lives := map[string]string{}
	for _, m := range f.Members {
		lives[m.ClusterID+"/"+m.ServiceName] = m.UID
	}
	for _, n := range g.Nodes {
		m := member(n)
		if n.Replica() {
			m.UID = lives[m.ClusterID+"/"+m.ServiceName]
			if m.UID == "" {
				m.UID = newUID()
			}
		}
		next.Members = append(next.Members, m)
	}
	return next
}

// changeDraft is an attempt made ready.
type changeDraft struct {
	next      record.Federation
	specs     map[string]string
	added     []placed
	before    []staged
	submitted []staged
}

func (c *ControlPlane) draftChange(r *renderer, sit situation, next record.Federation) (*changeDraft, error) {
	d := &changeDraft{next: next, specs: map[string]string{}}
	until := record.At(sit.now.Add(c.cfg.PrepareDeadline))
	for i, m := range next.Members {
		if !m.Replica() {
			continue
		}
		desired, spec, err := r.replica(i, m)
		if err != nil {
			return nil, err
		}
		d.before = append(d.before, spec)
		if memberOf(sit.fed.Members, m.UID) >= 0 {
			d.specs[m.UID] = desired.rec.Spec
			continue
		}
		desired.rec.Deadline = &until
		if next.Deployment == deploymentBestEffort {
			desired.rec.Deadline = nil
		}
		d.added = append(d.added, desired)
	}
	submitted, err := r.submitted()
	if err != nil {
		return nil, err
	}
	d.submitted = submitted
	return d, nil
}

// commitChange is the transaction of an attempt. Members that are added to a
// transactional federation vote first; to one of best effort they come when they can.
func (c *ControlPlane) commitChange(ctx context.Context, d *changeDraft, sit situation, rev, fence int64) error {
	uid := sit.fed.UID
	key := record.FederationKey(uid)
	keys := []string{key, record.FenceKey}
	for _, p := range d.added {
		keys = append(keys, record.DesiredServiceKey(p.cluster, p.service))
	}
	votes := len(d.added) > 0 && d.next.Deployment != deploymentBestEffort
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, RequestID: d.next.RequestID, Marker: record.HistoryKey(uid, d.next.Generation),
		Build: func(v store.View, tx *store.Txn) error {
			if kv, ok := v.KV(key); !ok || kv.ModRevision != rev {
				return errStale
			}
			tx.Expect(key)
			if len(d.added) > 0 {
				if kv, _ := v.KV(record.FenceKey); kv.ModRevision != fence {
					return errFence
				}
				tx.Expect(record.FenceKey)
			}
			for _, p := range d.added {
				if err := placeFree(v, p); err != nil {
					return err
				}
				tx.ExpectAbsent(record.DesiredServiceKey(p.cluster, p.service))
			}
			if votes {
				next := sit.fed
				next.Refused = nil
				next.Change = &record.Change{
					RequestID: d.next.RequestID, Topology: d.next.Topology, Delegation: d.next.Delegation, Drift: d.next.Drift,
					Visibility: d.next.Visibility, AllowedUsers: d.next.AllowedUsers, Prefetch: d.next.Prefetch,
					Members: d.next.Members, Specs: d.specs, Deadline: *d.added[0].rec.Deadline,
				}
				tx.Put(key, next)
			} else if err := applyChange(sit, newProposal(d.next, d.specs)).write(sit.fed, v, tx); err != nil {
				return err
			}
			for _, p := range d.added {
				tx.Put(record.DesiredServiceKey(p.cluster, p.service), p.rec)
			}
			for _, s := range d.submitted {
				tx.Put(s.key, s.rec)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	return c.state.wait(ctx, res.Revision)
}

// awaitChange waits for the votes of added members, and then up to wait until
// everybody has applied the change.
func (c *ControlPlane) awaitChange(ctx context.Context, id change, uid string, wait time.Duration) (*ChangeResult, error) {
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	over := false
	for {
		changed := c.state.watch()
		var f record.Federation
		found := false
		c.state.read(func() {
			if v, ok := c.state.federations[uid]; ok {
				f, found = *v.rec, true
			}
		})
		switch {
		case !found || f.Phase != record.PhaseReady:
			return nil, &Error{Code: CodeConflict, Message: "the federation was deleted meanwhile"}
		case f.Refused != nil && f.Refused.RequestID == id.requestID:
			return nil, refusedError(&f)
		case f.Change == nil || f.Change.RequestID != id.requestID:
			res, err := c.changed(id, uid)
			if err != nil || over || len(res.Away) == 0 || id.wait == 0 {
				return res, err
			}
		}
		select {
		case <-changed:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func refusedError(f *record.Federation) error {
	r := f.Refused
	failed := &FailedCreate{GroupID: f.GroupID, Phase: record.PhaseAborted, Rollback: record.RollbackNotNeeded}
	for _, m := range r.Members {
		if m.Coordinator {
			failed.Service = m.ServiceName
		}
		if m.Replica() {
			failed.Replicas = append(failed.Replicas, FailedReplica{
				Type: m.Type, ClusterID: m.ClusterID, ServiceName: m.ServiceName, Cause: m.Cause, Rollback: *m.Rollback,
			})
		}
	}
	return &Error{Code: Code(r.Code), Message: r.Detail, Failed: failed}
}

// changed is the federation after a change, as its coordinator sees it.
func (c *ControlPlane) changed(id change, uid string) (*ChangeResult, error) {
	fed, ok := c.federation(uid)
	if !ok {
		return nil, notFound(fmt.Sprintf("there is no service %q", id.service))
	}
	self := slices.IndexFunc(fed.Members, func(m Replica) bool {
		return m.ServiceName == id.service && (id.clusterID == "" || m.ClusterID == id.clusterID)
	})
	if self < 0 {
		self = slices.IndexFunc(fed.Members, func(m Replica) bool { return m.Coordinator })
	}
	out := &ChangeResult{Replicas: asSeen(fed.Federation, self)}
	for _, m := range fed.Members {
		if m.Status != nil && (m.Status.Phase != record.PhaseReady || m.Status.ObservedGeneration < fed.Generation) {
			out.Away = append(out.Away, m)
		}
	}
	return out, nil
}
