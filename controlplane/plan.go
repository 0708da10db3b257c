package controlplane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// PlanAction says what a definition would do to a service, or to one replica of it.
type PlanAction string

// The actions. A service is created, changed or left as it is, a replica created,
// updated, removed or left as it is.
const (
	PlanNone   PlanAction = "none"
	PlanCreate PlanAction = "create"
	PlanChange PlanAction = "change"
	PlanUpdate PlanAction = "update"
	PlanRemove PlanAction = "remove"
)

// PlanRequest is a definition that somebody thinks of submitting.
type PlanRequest struct {
	Service *oscar.Service
	// Deployment overrides the definition of a creation, as in CreateRequest.
	Deployment string
}

// Plan is what a definition would write, and why. A request that carries its
// Digest writes exactly that, or nothing.
type Plan struct {
	Action  PlanAction
	Service string
	Cluster string
	GroupID string
	Owner   string
	// UID, Generation and Revision of the federation that is there; none when it is
	// created.
	UID        string
	Generation int64
	Revision   int64
	// NextGeneration is the one that would be written.
	NextGeneration int64
	// Fence is the revision at which the clusters were read.
	Fence      int64
	Digest     string
	Deployment string
	// Fields and Secrets are what differs in the definition.
	Fields  []PlannedField
	Secrets []oscar.SecretDifference
	// TopologyBefore is empty when the federation is created.
	TopologyBefore, Topology string
	EdgesAdded, EdgesRemoved [][2]string
	Replicas                 []PlannedReplica
	Warnings                 []PlanWarning
}

// PlannedReplica is what would be written to one cluster.
type PlannedReplica struct {
	ClusterID, ServiceName string
	Action                 PlanAction
	// Votes says that its cluster is asked before anything is made.
	Votes bool
	// Delay is how long the cluster's write queue is now.
	Delay time.Duration
	// Reasons of the action, one sentence each.
	Reasons []string
	// Fields and Secrets are what differs in what its OSCAR is sent.
	Fields  []PlannedField
	Secrets []oscar.SecretDifference
	// Left names the buckets of earlier lives that it attaches to.
	Left []string
	// Spec is the fingerprint of the service that its OSCAR is sent, without its
	// secrets; the uid of one that is created is "new" in it.
	Spec string
}

// PlanWarning is something that does not stop a plan, but may what follows.
type PlanWarning struct {
	ClusterID, ServiceName string
	Reason                 record.Reason
	Message                string
}

// PlanService says what a definition would do if it was submitted now, by the same
// steps that submitting it takes: it creates the service, or changes the caller's
// that is there. Its errors are those that submitting would have before a cluster
// is asked. It writes nothing.
func (c *ControlPlane) PlanService(ctx context.Context, caller identity.Caller, req PlanRequest) (*Plan, error) {
	tries := newRetries()
	for {
		if err := c.fresh(ctx); err != nil {
			return nil, err
		}
		plan, err := c.plan(ctx, caller, req)
		if !errors.Is(err, errStale) {
			return plan, crossing(err)
		}
		if err := tries.next(ctx, err); err != nil {
			return nil, err
		}
	}
}

// plan decides between creation and change as those do who submit: what is not to
// be created, since it is there, is changed.
func (c *ControlPlane) plan(ctx context.Context, caller identity.Caller, req PlanRequest) (*Plan, error) {
	refused := c.creatable(caller, req)
	if refused == nil {
		return c.planCreate(caller, req)
	}
	if e, ok := errors.AsType[*Error](refused); !ok || e.Code != CodeInvalid && e.Code != CodeAlreadyExists {
		return nil, refused
	}
	id := change{caller: caller, service: req.Service.Name, clusterID: req.Service.ClusterID, whole: true}
	p, busy, err := c.changeable(id)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeNotFound {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	if busy {
		return nil, &Error{Code: CodeConflict, Message: "another change of the federation waits for the votes of its clusters; plan again when it has ended"}
	}
	return c.planChange(ctx, caller, p, req.Service)
}

// creatable says why a definition cannot be created: it is not valid, or something
// has its name or a place of it.
func (c *ControlPlane) creatable(caller identity.Caller, req PlanRequest) error {
	s := req.Service.Clone()
	token := offered(caller, s.TakeRefreshToken())
	g, _, err := c.validate(caller, s, CreateRequest{Deployment: req.Deployment}, token)
	if err != nil {
		return err
	}
	return c.taken(caller.Subject, g)
}

// taken says what has the name or a place of a federation that is to be created,
// as far as this instance knows; the transaction that creates it looks again.
func (c *ControlPlane) taken(owner string, g *topology.Graph) error {
	var named string
	held := map[string]*record.Desired{}
	c.state.read(func(v *View) {
		named = v.names[record.NameKey(owner, g.GroupID)]
		for _, n := range g.Replicas() {
			held[n.Name()] = v.desired(n.Member.ClusterID, n.Member.ServiceName).rec
		}
	})
	if named != "" {
		return c.nameHeld(named, g.GroupID)
	}
	for _, n := range g.Replicas() {
		if d := held[n.Name()]; d != nil {
			return c.placeHeld(d, n.Member.ClusterID, n.Member.ServiceName)
		}
	}
	return nil
}

func (c *ControlPlane) planCreate(caller identity.Caller, req PlanRequest) (*Plan, error) {
	s := req.Service.Clone()
	token := offered(caller, s.TakeRefreshToken())
	d, err := c.draftCreate(caller, s, CreateRequest{RequestID: newUID(), Deployment: req.Deployment}, "", token)
	if err != nil {
		return nil, err
	}
	plan := describeCreate(d, c.surroundings(d.fed.Members))
	plan.Digest = c.digestOfCreate(caller, d)
	return plan, nil
}

func (c *ControlPlane) planChange(ctx context.Context, caller identity.Caller, p place, s *oscar.Service) (*Plan, error) {
	s = s.Clone()
	id := change{caller: caller, claim: claim{requestID: newUID()}, token: offered(caller, s.TakeRefreshToken())}
	d, err := c.draftChange(ctx, id, p, replaceBy(s))
	if err != nil {
		return nil, err
	}
	for _, placed := range d.added {
		var held *record.Desired
		c.state.read(func(v *View) { held = v.desired(placed.cluster, placed.service).rec })
		if held != nil {
			return nil, c.placeHeld(held, placed.cluster, placed.service)
		}
	}
	var sent map[string]rendered
	if d.differs {
		if sent, err = c.sent(ctx, d.sit); err != nil {
			return nil, err
		}
	}
	plan := describeChange(d, sent, c.surroundings(append(slices.Clone(d.sit.fed.Members), d.next.Members...)))
	plan.Digest = c.digestOfChange(caller, d)
	return plan, nil
}

// readAtOnce is how many specs are read at once: each may be as large as a
// definition.
const readAtOnce = 8

// sent reads what each replica's OSCAR is sent at present, by uid.
func (c *ControlPlane) sent(ctx context.Context, sit situation) (map[string]rendered, error) {
	out := map[string]rendered{}
	for some := range slices.Chunk(sit.replicas, readAtOnce) {
		var keys []string
		for _, r := range some {
			if r.desired != nil && r.desired.Spec != "" {
				keys = append(keys, record.SpecKey(r.at.ClusterID, r.desired.Spec))
			}
		}
		view, err := c.store.Read(ctx, keys...)
		if err != nil {
			return nil, err
		}
		for _, r := range some {
			if r.desired == nil || r.desired.Spec == "" {
				continue
			}
			kv, ok := view.KV(record.SpecKey(r.at.ClusterID, r.desired.Spec))
			if !ok {
				return nil, errStale // a newer generation has taken its place
			}
			if out[r.at.UID], err = c.openSpec(kv, r); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// openSpec reads one spec, with the secrets that are sealed to the control plane too.
func (c *ControlPlane) openSpec(kv store.KV, r replicaState) (rendered, error) {
	spec, err := store.Decode[record.Spec](kv)
	if err != nil {
		return rendered{}, err
	}
	public, violations := oscar.ParseService(spec.Service)
	if len(violations) > 0 {
		return rendered{}, &store.CorruptError{Key: kv.Key, Err: violations[0]}
	}
	patch, err := c.identity.Open(spec.Sealed, seal.Header{
		Purpose: purposeSpec, Cluster: r.at.ClusterID, UID: r.at.UID, Generation: r.desired.Generation,
	}, c.cfg.Now())
	if err != nil {
		return rendered{}, err
	}
	return rendered{at: r.at, public: public, patch: json.RawMessage(patch), left: spec.Left, origin: spec.Origin, sees: r.desired.Sees}, nil
}

// surrounding is what a plan must know of one cluster.
type surrounding struct {
	state    record.ClusterState
	alive    bool
	lastSeen *time.Time
	queue    time.Duration
	// reason is why its OSCAR cannot be asked, and message goes with it.
	reason  record.Reason
	message string
}

// surroundings are the clusters that members are on, and the limit of their queues.
type surroundings struct {
	clusters map[string]surrounding
	maxDelay time.Duration
}

func (c *ControlPlane) surroundings(members []record.Member) surroundings {
	out := surroundings{clusters: map[string]surrounding{}, maxDelay: c.cfg.MaxQueueDelay}
	c.state.read(func(v *View) {
		for _, m := range members {
			if !m.Replica() {
				continue
			}
			s := surrounding{alive: v.alive(m.ClusterID)}
			if reg, ok := v.clusters[m.ClusterID]; ok {
				s.state = reg.rec.State
				if reg.rec.LastSeen != nil {
					s.lastSeen = &reg.rec.LastSeen.Time
				}
			}
			if n := v.nodes[m.ClusterID]; n != nil && n.self.rec != nil {
				s.queue, s.reason = time.Duration(n.self.rec.QueueS)*time.Second, n.self.rec.Reason
				s.message = cmp.Or(v.trouble(m.ClusterID).message, "the syncer cannot reach its OSCAR")
			}
			out.clusters[m.ClusterID] = s
		}
	})
	return out
}
