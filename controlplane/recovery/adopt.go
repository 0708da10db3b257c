package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// To keep what a cluster has, the control plane has to read it from there. The decision is written
// as a question (record.Ask) to the cluster's syncer, and stays until it is carried out: any
// instance takes over the answer, and deletes a question with nothing left to do.

// ask writes the question.
func (c *Controller) ask(ctx context.Context, req ResolveRequest, d *difference) error {
	key := record.AskKey(d.ClusterID, d.ServiceName)
	res, err := c.store.Update(ctx, store.Update{Keys: []string{key}, Build: func(v store.View, tx *store.Txn) error {
		if kv, ok := v.KV(key); ok {
			if old, err := store.Decode[record.Ask](kv); err == nil && old.RequestID == req.RequestID {
				return nil // an answer was lost
			}
		}
		tx.Put(key, record.Ask{
			V: record.Version, UID: d.UID, RequestID: req.RequestID, Recipient: c.identity.Recipient(), AskedAt: record.At(c.cfg.Now()), By: req.by,
			Held: &record.Branch{Epoch: d.ClusterEpoch, Generation: d.ClusterGeneration},
		})
		request.Note(tx, c.cfg.Now(), req.entry(d, record.OutcomeAccepted))
		return nil
	}})
	if err != nil {
		return err
	}
	return c.gate.Shows(ctx, res.Revision)
}

// answered is a question with its answer.
type answered struct {
	cluster, service string
	ask              view.Versioned[record.Ask]
	shown            record.Shown
	difference       *difference
}

// adopt takes over the answers of the syncer of a cluster.
func (c *Controller) adopt(ctx context.Context, cluster string) error {
	var all []answered
	c.state.Read(func(v *view.View) {
		n := v.Nodes.Get(cluster)
		if n.Asks.Len() == 0 {
			return
		}
		differences := differences(v, c.tokens.ServiceToken)
		for service, ask := range n.Asks.All() {
			shown := n.Shown.Get(service).Rec
			if shown == nil || shown.RequestID != ask.Rec.RequestID || shown.UID != ask.Rec.UID {
				continue
			}
			a := answered{cluster: cluster, service: service, ask: ask, shown: *shown}
			for _, d := range differences {
				if d.ClusterID == cluster && d.ServiceName == service && d.UID == ask.Rec.UID {
					a.difference = &d
				}
			}
			all = append(all, a)
		}
	})
	for _, a := range all {
		req := ResolveRequest{ClusterID: a.cluster, ServiceName: a.service, Keep: v1.KeepCluster, RequestID: a.ask.Rec.RequestID, by: a.ask.Rec.By}
		err := c.takeOver(ctx, req, a)
		var refused *record.Audit
		if e, ok := errors.AsType[*fault.Error](err); ok && e.Code != fault.CodeUnavailable && e.Code != fault.CodeUnknownOutcome {
			// It cannot be taken over as it is; a person decides again.
			c.cfg.Logger.Warn("what a cluster has was not taken over", "cluster", a.cluster, "service", a.service, "error", err)
			refused = new(req.entry(a.difference, record.OutcomeRefused))
			refused.Detail = a.service + ": " + err.Error()
			err = nil
		}
		if err != nil {
			return err
		}
		if err := c.dropAsk(ctx, a, refused); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) takeOver(ctx context.Context, req ResolveRequest, a answered) error {
	d := a.difference
	if d == nil {
		return nil // it was carried out, or decided otherwise
	}
	if a.shown.Error != "" {
		return &fault.Error{Code: fault.CodeFailedPrecondition, Message: a.shown.Error}
	}
	if !a.ask.Rec.Allows(&a.shown) {
		return &fault.Error{Code: fault.CodeFailedPrecondition, Message: fmt.Sprintf(
			"generation %d is shown, and %d was held when it was decided on", a.shown.Generation, a.ask.Rec.Held.Generation)}
	}
	plain, err := c.identity.Open(a.shown.Sealed, seal.Header{Purpose: seal.PurposeShown, Cluster: a.cluster, UID: a.ask.Rec.UID, Generation: a.shown.Generation}, c.cfg.Now())
	if err != nil {
		return &fault.Error{Code: fault.CodeFailedPrecondition, Message: err.Error()}
	}
	s, violations := oscar.ParseService(plain)
	if len(violations) > 0 {
		return &fault.Error{Code: fault.CodeInvalid, Message: "what the cluster has cannot be read", Violations: violations}
	}
	asUsers(s)
	if d.Kind == v1.DifferenceOrphan {
		return c.restoreFederation(ctx, req, d, s)
	}
	// The same generation, or an older one, that is held at another member is decided about with it. A newer one is not.
	r := &federations.Resolution{UID: d.UID, Accept: &record.Branch{Epoch: a.shown.Epoch, Generation: a.shown.Generation}, Everywhere: true, Shown: true, By: req.by}
	return fault.Crossing(c.rewrite(ctx, federations.Administrator(), req, d, r, func(old *oscar.Service) (*oscar.Service, error) {
		next := s.Clone()
		next.Name, next.ClusterID = old.Name, old.ClusterID
		next.Federation, next.Clusters, next.StorageProviders, next.Labels = old.Federation, old.Clusters, old.StorageProviders, old.Labels
		next.Volume = old.Volume // OSCAR shows what we sent, and it cannot be changed
		return federations.ReplaceBy(next)(old)
	}))
}

// asUsers removes from a service what the syncer and OSCAR have added.
func asUsers(s *oscar.Service) {
	s.Token, s.Namespace = "", ""
	s.DropState()
	s.Clusters = nil
	maps.DeleteFunc(s.Annotations, func(key, _ string) bool { return topology.Reserved(key) })
}

// dropAsk deletes a question and its answer, with an entry of the audit when it was not taken over.
func (c *Controller) dropAsk(ctx context.Context, a answered, refused *record.Audit) error {
	key := record.AskKey(a.cluster, a.service)
	res, err := c.store.Update(ctx, store.Update{Keys: []string{key}, Build: func(v store.View, tx *store.Txn) error {
		if kv, ok := v.KV(key); !ok || kv.ModRevision != a.ask.Rev {
			return nil
		}
		tx.Expect(key)
		tx.Delete(key)
		tx.Delete(record.ShownKey(a.cluster, a.service))
		if refused != nil {
			request.Note(tx, c.cfg.Now(), *refused)
		}
		return nil
	}})
	if err != nil {
		return err
	}
	return c.gate.Shows(ctx, res.Revision)
}

// lostMember is an orphan that belongs to a federation which the store has lost.
type lostMember struct {
	cluster string
	orphan  record.Orphan
}

// lostFederations lists, the coordinator first, the orphans of each federation that the store does not have: of one that has a
// coordinator, and is not known to have ended. Only orphans with our token count, and with a generation that another one can
// follow. A life counts once, whatever its cluster reports.
func lostFederations(v *view.View, token func(string) string) map[string][]lostMember {
	ended := map[string]bool{}
	for _, d := range v.Deleted.All() {
		ended[d.Rec.Federation] = true
	}
	origins, members := map[string][]lostMember{}, map[string][]lostMember{}
	seen, copied := map[string]bool{}, map[string]bool{}
	for _, cluster := range slices.Sorted(v.Nodes.Keys()) {
		n := v.Nodes.Get(cluster)
		if _, registered := v.Clusters.Lookup(cluster); !registered || n.Self.Rec == nil {
			continue
		}
		for _, o := range n.Self.Rec.Orphans {
			if _, there := v.Federations.Lookup(o.Federation); there || o.Federation == "" || ended[o.Federation] || o.Generation < 0 || o.Generation > maxGeneration ||
				n.Desired.Get(o.ServiceName).Rec != nil || !marked(o, token) || v.Elsewhere(cluster, o) != "" {
				continue
			}
			at := cluster + "/" + o.ServiceName
			again := seen[o.UID] || seen[at]
			seen[o.UID], seen[at] = true, true
			switch one := (lostMember{cluster, o}); {
			case o.Settings != "":
				origins[o.Federation] = append(origins[o.Federation], one)
				copied[o.Federation] = copied[o.Federation] || again || len(origins[o.Federation]) > 1
			case !again:
				members[o.Federation] = append(members[o.Federation], one)
			}
		}
	}
	out := map[string][]lostMember{}
	for uid, origin := range origins {
		if !copied[uid] { // of two coordinators one is a copy
			out[uid] = slices.Concat(origin, members[uid])
		}
	}
	return out
}

// marked says whether an orphan carries the token of its life.
func marked(o record.Orphan, token func(string) string) bool {
	return o.Mark == record.Mark(token(o.UID))
}

// restoreFederation makes a federation of its orphans: with the same uids and the definition of its
// coordinator, in one transaction. Its names and locations must be free.
func (c *Controller) restoreFederation(ctx context.Context, req ResolveRequest, d *difference, s *oscar.Service) error {
	var left []lostMember
	var epoch string
	c.state.Read(func(v *view.View) { left, epoch = lostFederations(v, c.tokens.ServiceToken)[d.claims], v.Epoch() })
	if len(left) == 0 || left[0].orphan.UID != d.UID {
		return &fault.Error{Code: fault.CodeFailedPrecondition, Message: "its federation is there again, or nothing is left of its coordinator"}
	}
	owner := s.Owner
	if owner == "" {
		owner = identity.Admin
	}
	s.Owner, s.Name, s.ClusterID, s.Labels = "", d.ServiceName, d.ClusterID, nil
	settings, err := topology.ParseSettings(left[0].orphan.Settings)
	if err != nil {
		return &fault.Error{Code: fault.CodeInvalid, Message: err.Error()}
	}
	fed := federations.OfService(s)
	fed.Topology, fed.Deployment, fed.Drift, fed.Members = settings.Topology, settings.Deployment, settings.Drift, nil
	for _, m := range left[1:] {
		fed.Members = append(fed.Members, oscar.Member{Type: oscar.MemberOSCAR, ClusterID: m.cluster, ServiceName: m.orphan.ServiceName})
	}
	tries := gate.NewRetries()
	for {
		g, fence, err := c.federations.ValidateStanding(s.Clone())
		if err != nil {
			return err
		}
		err = c.commitBack(ctx, req, owner, s, g, fence, epoch, d.claims, left)
		if !errors.Is(err, gate.ErrFence) {
			return fault.Crossing(err)
		}
		if err := tries.Next(ctx, err); err != nil {
			return err
		}
		if err := c.gate.Fresh(ctx); err != nil {
			return err
		}
	}
}

func (c *Controller) commitBack(ctx context.Context, req ResolveRequest, owner string, s *oscar.Service, g *topology.Graph, fence int64, epoch, uid string, left []lostMember) error {
	now := c.cfg.Now()
	caller := identity.Caller{Subject: owner}
	fed := federations.NewRecord(caller, s, g, federations.CreateRequest{RequestID: req.RequestID}, "", now)
	fed.UID, fed.Phase, fed.By = uid, record.PhaseReady, cmp.Or(req.by, owner)
	fed.SecretsLost = len(s.Environment.Secrets) > 0 // OSCAR shows no value: what is behind waits for them
	fed.Generation, fed.Epoch = left[0].orphan.Generation, left[0].orphan.Epoch
	lives := map[string]record.Orphan{}
	last, highest := true, fed.Generation
	for _, m := range left {
		lives[m.cluster+"/"+m.orphan.ServiceName] = m.orphan
		last = last && m.orphan.Epoch == fed.Epoch && m.orphan.Generation <= fed.Generation
		highest = max(highest, m.orphan.Generation)
	}
	if !last { // what the coordinator has becomes the next definition
		fed.Epoch, fed.Generation = epoch, highest+1
	}
	for _, n := range g.Nodes {
		m := federations.Member(n)
		m.UID = lives[m.ClusterID+"/"+m.ServiceName].UID
		fed.Members = append(fed.Members, m)
	}
	r := c.federations.Renderer(s, g, fed)
	r.Name = func(service, replica string) string {
		return record.ChangedSpecName(service, replica, fed.Generation, record.NewUID())
	}
	all, err := r.Replicas(fed.Members)
	if err != nil {
		return err
	}
	records, err := r.DefinitionRecords()
	if err != nil {
		return err
	}
	names, shared := r.Parts()
	fed.Parts = names
	d := &federations.Draft{Fed: fed, Fence: fence}
	for _, one := range all {
		o := lives[one.Desired.Cluster+"/"+one.Desired.Service]
		one.Desired.Rec.Intent, one.Desired.Rec.Deadline = record.IntentApply, nil
		if o.Epoch != fed.Epoch {
			one.Desired.Rec.Past = record.Branched(nil, o.Epoch, o.Generation)
		}
		d.Desired, d.Before = append(d.Desired, one.Desired), append(d.Before, one.Spec)
	}
	if err := c.federations.Stage(ctx, slices.Concat(shared, d.Before, records)); err != nil {
		return err
	}
	entry := request.EntryOf(fed, record.ActionResolve, record.OutcomeDone)
	entry.ClusterID = req.ClusterID
	return c.commitLost(ctx, d, epoch, entry)
}

// commitLost is the transaction that writes all records of a lost federation, whose orphans were found in an epoch.
func (c *Controller) commitLost(ctx context.Context, d *federations.Draft, epoch string, entry record.Audit) error {
	fedKey, nameKey := record.FederationKey(d.Fed.UID), record.NameKey(d.Fed.Owner, d.Fed.GroupID)
	keys := []string{fedKey, nameKey, record.FenceKey, record.MetaKey}
	for _, p := range d.Desired {
		keys = append(keys, record.DesiredServiceKey(p.Cluster, p.Service))
	}
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, RequestID: d.Fed.RequestID, Marker: fedKey,
		Build: func(v store.View, tx *store.Txn) error {
			if err := gate.DecidedIn(v, tx, epoch); err != nil {
				return err
			}
			if _, there := v.KV(fedKey); there {
				return &fault.Error{Code: fault.CodeAlreadyExists, Message: fmt.Sprintf("federation %q is there again", d.Fed.GroupID)}
			}
			if kv, _ := v.KV(record.FenceKey); kv.ModRevision != d.Fence {
				return gate.ErrFence
			}
			if err := c.federations.NameFree(v, nameKey, d.Fed.GroupID); err != nil {
				return err
			}
			tx.Expect(record.FenceKey)
			tx.ExpectAbsent(fedKey)
			tx.ExpectAbsent(nameKey)
			tx.Put(fedKey, d.Fed)
			tx.Put(nameKey, record.Name{V: record.Version, UID: d.Fed.UID})
			request.Note(tx, c.cfg.Now(), entry)
			for _, p := range d.Desired {
				if err := c.federations.LocationFree(v, p); err != nil {
					return err
				}
				key := record.DesiredServiceKey(p.Cluster, p.Service)
				tx.ExpectAbsent(key)
				tx.Put(key, p.Rec)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	return c.gate.Shows(ctx, res.Revision)
}
