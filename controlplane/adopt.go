package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// To keep what a cluster has, the store must learn it. The decision is written as a
// question to that cluster's syncer, and stays until it was carried out: any instance
// takes the answer over, and one that finds nothing left to do takes the question away.

const purposeShown = "shown"

// ask writes the question.
func (c *ControlPlane) ask(ctx context.Context, req ResolveRequest, d *Difference) error {
	res, err := c.store.Update(ctx, store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(record.AskKey(d.ClusterID, d.ServiceName), record.Ask{
			V: record.Version, UID: d.UID, RequestID: req.RequestID, Recipient: c.identity.Recipient(), AskedAt: record.At(c.cfg.Now()),
		})
		return nil
	}})
	if err != nil {
		return err
	}
	return c.shows(ctx, res.Revision)
}

// answered is a question with its answer.
type answered struct {
	cluster, service string
	ask              versioned[record.Ask]
	shown            record.Shown
	difference       *Difference
}

// adopt takes over what the syncer of a cluster has shown.
func (c *ControlPlane) adopt(ctx context.Context, cluster string) error {
	var all []answered
	c.state.read(func(v *View) {
		n := v.nodes[cluster]
		if n == nil || len(n.asks) == 0 {
			return
		}
		differences := v.differences(c.serviceToken)
		for service, ask := range n.asks {
			shown := n.shown[service].rec
			if shown == nil || shown.RequestID != ask.rec.RequestID || shown.UID != ask.rec.UID {
				continue
			}
			a := answered{cluster: cluster, service: service, ask: ask, shown: *shown}
			for _, d := range differences {
				if d.ClusterID == cluster && d.ServiceName == service && d.UID == ask.rec.UID {
					a.difference = &d
				}
			}
			all = append(all, a)
		}
	})
	for _, a := range all {
		err := c.takeOver(ctx, a)
		if e, ok := errors.AsType[*Error](err); ok && e.Code != CodeUnavailable && e.Code != CodeUnknownOutcome {
			// It cannot be taken over as it is; a person decides again.
			c.cfg.Logger.Warn("what a cluster has was not taken over", "cluster", a.cluster, "service", a.service, "error", err)
			err = nil
		}
		if err != nil {
			return err
		}
		if err := c.dropAsk(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (c *ControlPlane) takeOver(ctx context.Context, a answered) error {
	d := a.difference
	if d == nil {
		return nil // it was carried out, or decided otherwise
	}
	if a.shown.Error != "" {
		return &Error{Code: CodeFailedPrecondition, Message: a.shown.Error}
	}
	plain, err := c.identity.Open(a.shown.Sealed, seal.Header{Purpose: purposeShown, Cluster: a.cluster, UID: a.ask.rec.UID, Generation: a.shown.Generation}, c.cfg.Now())
	if err != nil {
		return &Error{Code: CodeFailedPrecondition, Message: err.Error()}
	}
	s, violations := oscar.ParseService(plain)
	if len(violations) > 0 {
		return &Error{Code: CodeInvalid, Message: "what the cluster has cannot be read", Violations: violations}
	}
	asUsers(s)
	req := ResolveRequest{ClusterID: a.cluster, ServiceName: a.service, Keep: KeepCluster, RequestID: a.ask.rec.RequestID}
	if d.Kind == DifferenceOrphan {
		return c.takeBack(ctx, req, d, s)
	}
	accept := &record.Branch{Epoch: a.shown.Epoch, Generation: a.shown.Generation}
	return crossing(c.rewrite(ctx, administrator(), req, d, &resolution{uid: d.UID, accept: accept}, func(old *oscar.Service) (*oscar.Service, error) {
		next := s.Clone()
		next.Name, next.ClusterID = old.Name, old.ClusterID
		next.Federation, next.Clusters, next.StorageProviders, next.Labels = old.Federation, old.Clusters, old.StorageProviders, old.Labels
		next.Volume = old.Volume // what OSCAR shows is what we sent, and nobody can change it
		return replaceBy(next)(old)
	}))
}

// asUsers takes out of a service what we and OSCAR have put in.
func asUsers(s *oscar.Service) {
	s.Token, s.Namespace = "", ""
	s.BucketList, s.VolumeStatus, s.Deployment, s.Clusters = nil, oscar.VolumeStatus{}, nil, nil
	maps.DeleteFunc(s.Annotations, func(key, _ string) bool { return topology.Reserved(key) })
}

// dropAsk takes a question and its answer away.
func (c *ControlPlane) dropAsk(ctx context.Context, a answered) error {
	key := record.AskKey(a.cluster, a.service)
	res, err := c.store.Update(ctx, store.Update{Keys: []string{key}, Build: func(v store.View, tx *store.Txn) error {
		if kv, ok := v.KV(key); !ok || kv.ModRevision != a.ask.rev {
			return nil
		}
		tx.Expect(key)
		tx.Delete(key)
		tx.Delete(record.ShownKey(a.cluster, a.service))
		return nil
	}})
	if err != nil {
		return err
	}
	return c.shows(ctx, res.Revision)
}

// lostMember is an orphan that belongs to a federation which the store has lost.
type lostMember struct {
	cluster string
	orphan  record.Orphan
}

// lostFederation lists, the coordinator first, what is left of a federation that the store
// knows nothing of; nil when there is no coordinator, or when its end is known. Only what
// carries our token counts.
func (v *View) lostFederation(uid string, token func(string) string) []lostMember {
	if _, there := v.federations[uid]; uid == "" || there {
		return nil
	}
	for _, d := range v.deleted {
		if d.rec.Federation == uid {
			return nil
		}
	}
	var out []lostMember
	origin := false
	for _, cluster := range slices.Sorted(maps.Keys(v.nodes)) {
		n := v.nodes[cluster]
		if _, registered := v.clusters[cluster]; !registered || n.self.rec == nil {
			continue
		}
		for _, o := range n.self.rec.Orphans {
			if o.Federation != uid || n.desired[o.ServiceName].rec != nil || o.Mark != record.Mark(token(o.UID)) || v.elsewhere(cluster, o) != "" {
				continue
			}
			if o.Settings == "" {
				out = append(out, lostMember{cluster, o})
				continue
			}
			if origin {
				return nil // two coordinators: somebody copied one
			}
			origin = true
			out = slices.Insert(out, 0, lostMember{cluster, o})
		}
	}
	if !origin {
		return nil
	}
	return out
}

// takeBack makes a federation out of what is left of it: the same uids, the definition
// of its coordinator. One transaction, all or nothing; names and places must be free.
func (c *ControlPlane) takeBack(ctx context.Context, req ResolveRequest, d *Difference, s *oscar.Service) error {
	var left []lostMember
	c.state.read(func(v *View) { left = v.lostFederation(d.claims, c.serviceToken) })
	if len(left) == 0 || left[0].orphan.UID != d.UID {
		return &Error{Code: CodeFailedPrecondition, Message: "its federation is there again, or nothing is left of its coordinator"}
	}
	owner := s.Owner
	if owner == "" {
		owner = identity.Admin
	}
	s.Owner, s.Name, s.ClusterID, s.Labels = "", d.ServiceName, d.ClusterID, nil
	settings, err := topology.ParseSettings(left[0].orphan.Settings)
	if err != nil {
		return &Error{Code: CodeInvalid, Message: err.Error()}
	}
	fed := federationOf(s)
	fed.Topology, fed.Deployment, fed.Drift, fed.Members = settings.Topology, settings.Deployment, settings.Drift, nil
	for _, m := range left[1:] {
		fed.Members = append(fed.Members, oscar.Member{Type: oscar.MemberOSCAR, ClusterID: m.cluster, ServiceName: m.orphan.ServiceName})
	}
	tries := newRetries()
	for {
		g, fence, err := c.validate(administrator(), s.Clone(), CreateRequest{}, offeredToken{})
		if err != nil {
			return err
		}
		err = c.commitBack(ctx, req, owner, s, g, fence, d.claims, left)
		if !errors.Is(err, errFence) {
			return crossing(err)
		}
		if err := tries.next(ctx, err); err != nil {
			return err
		}
		if err := c.fresh(ctx); err != nil {
			return err
		}
	}
}

func (c *ControlPlane) commitBack(ctx context.Context, req ResolveRequest, owner string, s *oscar.Service, g *topology.Graph, fence int64, uid string, left []lostMember) error {
	now := c.cfg.Now()
	caller := identity.Caller{Subject: owner}
	fed := newFederation(caller, s, g, CreateRequest{RequestID: req.RequestID}, "", now)
	fed.UID, fed.Phase = uid, record.PhaseReady
	fed.Generation, fed.Epoch = left[0].orphan.Generation, left[0].orphan.Epoch
	lives := map[string]record.Orphan{}
	for _, m := range left {
		lives[m.cluster+"/"+m.orphan.ServiceName] = m.orphan
		if m.orphan.Generation != fed.Generation || m.orphan.Epoch != fed.Epoch {
			// They were not of one generation: what the coordinator has is written again.
			fed.Epoch = ""
			c.state.read(func(v *View) { fed.Epoch = v.epoch() })
			fed.Generation = max(fed.Generation, m.orphan.Generation) + 1
		}
	}
	for _, n := range g.Nodes {
		m := member(n)
		m.UID = lives[m.ClusterID+"/"+m.ServiceName].UID
		fed.Members = append(fed.Members, m)
	}
	r := c.renderer(s, g, fed)
	r.name = func(service, replica string) string {
		return record.ChangedSpecName(service, replica, fed.Generation, newUID())
	}
	all, err := r.replicas(fed.Members)
	if err != nil {
		return err
	}
	submitted, err := r.submitted()
	if err != nil {
		return err
	}
	d := &draft{fed: fed, fence: fence}
	for _, one := range all {
		o := lives[one.desired.cluster+"/"+one.desired.service]
		one.desired.rec.Intent, one.desired.rec.Deadline = record.IntentApply, nil
		if o.Epoch != fed.Epoch {
			one.desired.rec.Past = record.Branched(nil, o.Epoch, o.Generation)
		}
		d.desired, d.before = append(d.desired, one.desired), append(d.before, one.spec)
	}
	if err := c.stage(ctx, slices.Concat(d.before, submitted)); err != nil {
		return err
	}
	return c.commitLost(ctx, d)
}

// commitLost is the transaction that makes a lost federation appear again, whole.
func (c *ControlPlane) commitLost(ctx context.Context, d *draft) error {
	fedKey, nameKey := record.FederationKey(d.fed.UID), record.NameKey(d.fed.Owner, d.fed.GroupID)
	keys := []string{fedKey, nameKey, record.FenceKey, record.MetaKey}
	for _, p := range d.desired {
		keys = append(keys, record.DesiredServiceKey(p.cluster, p.service))
	}
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, RequestID: d.fed.RequestID, Marker: fedKey,
		Build: func(v store.View, tx *store.Txn) error {
			if _, there := v.KV(fedKey); there {
				return &Error{Code: CodeAlreadyExists, Message: fmt.Sprintf("federation %q is there again", d.fed.GroupID)}
			}
			if kv, _ := v.KV(record.FenceKey); kv.ModRevision != d.fence {
				return errFence
			}
			if err := c.nameFree(v, nameKey, d.fed.GroupID); err != nil {
				return err
			}
			tx.Expect(record.FenceKey)
			tx.Expect(record.MetaKey)
			tx.ExpectAbsent(fedKey)
			tx.ExpectAbsent(nameKey)
			tx.Put(fedKey, d.fed)
			tx.Put(nameKey, record.Name{V: record.Version, UID: d.fed.UID})
			for _, p := range d.desired {
				if err := c.placeFree(v, p); err != nil {
					return err
				}
				key := record.DesiredServiceKey(p.cluster, p.service)
				tx.ExpectAbsent(key)
				tx.Put(key, p.rec)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	return c.shows(ctx, res.Revision)
}
