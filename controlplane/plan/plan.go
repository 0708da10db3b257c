package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Request is a definition to plan.
type Request struct {
	Service *oscar.Service
	// Deployment overrides the definition of a creation, as in CreateRequest.
	Deployment string
	// Ask says that the clusters which will vote are asked what they would vote now.
	Ask bool
}

// Make says what a definition would do if it was sent now, by the same steps as a real
// request: it creates the service, or changes the caller's existing one. It returns the errors
// that a real request would have before a cluster is asked. It writes nothing, and neither do the
// clusters that are asked. A request that
// carries the digest of the plan writes exactly what was planned, or nothing.
func (c *Planner) Make(ctx context.Context, caller identity.Caller, req Request) (*v1.Plan, error) {
	tries := gate.NewRetries()
	for {
		if err := c.gate.Fresh(ctx); err != nil {
			return nil, err
		}
		plan, err := c.plan(ctx, caller, req)
		if !errors.Is(err, gate.ErrStale) {
			return plan, fault.Crossing(err)
		}
		if err := tries.Next(ctx, err); err != nil {
			return nil, err
		}
	}
}

// plan decides between creation and change as a real client does: a service that cannot be
// created because it exists is changed.
func (c *Planner) plan(ctx context.Context, caller identity.Caller, req Request) (*v1.Plan, error) {
	refused := c.creatable(caller, req)
	if refused == nil {
		return c.planCreate(ctx, caller, req)
	}
	if e, ok := errors.AsType[*fault.Error](refused); !ok || e.Code != fault.CodeInvalid && e.Code != fault.CodeAlreadyExists {
		return nil, refused
	}
	ch := federations.Change{Caller: caller, Service: req.Service.Name, ClusterID: req.Service.ClusterID, Whole: true}
	p, busy, err := c.federations.Changeable(ch)
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Code == fault.CodeNotFound {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	if busy {
		return nil, &fault.Error{Code: fault.CodeConflict, Message: "another change of the federation waits for the votes of its clusters; plan again when it has ended"}
	}
	return c.planChange(ctx, caller, p, req)
}

// creatable says why a definition cannot be created: it is not valid, or its name or one of its
// locations is taken.
func (c *Planner) creatable(caller identity.Caller, req Request) error {
	s := req.Service.Clone()
	token := tokens.GivenBy(caller, s.TakeRefreshToken())
	g, _, err := c.federations.Validate(caller, s, federations.CreateRequest{Deployment: req.Deployment}, token)
	if err != nil {
		return err
	}
	return c.federations.Taken(caller.Subject, g)
}

func (c *Planner) planCreate(ctx context.Context, caller identity.Caller, req Request) (*v1.Plan, error) {
	s := req.Service.Clone()
	token := tokens.GivenBy(caller, s.TakeRefreshToken())
	d, err := c.federations.DraftCreate(caller, s, federations.CreateRequest{RequestID: record.NewUID(), Deployment: req.Deployment}, "", token)
	if err != nil {
		return nil, err
	}
	plan := describeCreate(d, c.surroundings(d.Fed.Members))
	plan.Digest = c.federations.DigestOfCreate(caller, d)
	return plan, c.ask(ctx, caller, req, plan, d.Rendered)
}

func (c *Planner) planChange(ctx context.Context, caller identity.Caller, p view.MemberRef, req Request) (*v1.Plan, error) {
	s := req.Service.Clone()
	ch := federations.Change{Caller: caller, Claim: request.Claim{RequestID: record.NewUID()}, Token: tokens.GivenBy(caller, s.TakeRefreshToken())}
	d, err := c.federations.DraftChange(ctx, ch, p, federations.UpdateBy(s))
	if err != nil {
		return nil, err
	}
	var sent map[string]federations.Rendered
	if d.Differs {
		if sent, err = c.sent(ctx, d.Sit); err != nil {
			return nil, err
		}
	}
	plan := describeChange(d, sent, c.surroundings(append(slices.Clone(d.Sit.Fed.Members), d.Next.Members...)))
	plan.Digest = c.federations.DigestOfChange(caller, d)
	return plan, c.ask(ctx, caller, req, plan, d.Rendered)
}

// ask fills in what the clusters would vote on the replicas that are made.
func (c *Planner) ask(ctx context.Context, caller identity.Caller, req Request, plan *v1.Plan, rendered []federations.Rendered) error {
	if !req.Ask {
		return nil
	}
	at := map[v1.Address]federations.Rendered{}
	for _, r := range rendered {
		at[v1.Address{ClusterID: r.At.ClusterID, ServiceName: r.At.ServiceName}] = r
	}
	var questions []relay.Question
	var asked []*v1.PlanReplica
	for i := range plan.Replicas {
		r := &plan.Replicas[i]
		if !r.Votes {
			continue
		}
		q, err := at[v1.Address{ClusterID: r.ClusterID, ServiceName: r.ServiceName}].Question(plan.Owner)
		if err != nil {
			return err
		}
		questions, asked = append(questions, relay.Question{Cluster: r.ClusterID, Service: r.ServiceName, RelayQuestion: q}), append(asked, r)
	}
	for i, vote := range c.voters.Votes(ctx, caller, questions) {
		asked[i].Vote = &vote
	}
	return nil
}

// readAtOnce is how many specs are read at once: each may be as large as a
// definition.
const readAtOnce = 8

// sent reads what each replica's OSCAR is sent at present, by uid.
func (c *Planner) sent(ctx context.Context, sit view.Situation) (map[string]federations.Rendered, error) {
	out := map[string]federations.Rendered{}
	for some := range slices.Chunk(sit.Replicas, readAtOnce) {
		var keys []string
		for _, r := range some {
			if r.Desired != nil && r.Desired.Spec != "" {
				keys = append(keys, record.SpecKey(r.At.ClusterID, r.Desired.Spec))
			}
		}
		view, err := c.store.Read(ctx, keys...)
		if err != nil {
			return nil, err
		}
		for _, r := range some {
			if r.Desired == nil || r.Desired.Spec == "" {
				continue
			}
			kv, ok := view.KV(record.SpecKey(r.At.ClusterID, r.Desired.Spec))
			if !ok {
				return nil, gate.ErrStale // a newer generation has taken its place
			}
			if out[r.At.UID], err = c.openSpec(ctx, kv, r); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// openSpec reads one spec, with the secrets that are sealed to the control plane too.
func (c *Planner) openSpec(ctx context.Context, kv store.KV, r view.ReplicaState) (federations.Rendered, error) {
	spec, err := store.Decode[record.Spec](kv)
	if err != nil {
		return federations.Rendered{}, err
	}
	service, patch, err := c.federations.OpenSpec(ctx, r.At.ClusterID, r.Desired, spec)
	if errors.Is(err, store.ErrNotFound) {
		err = gate.ErrStale // a newer generation has taken its place
	}
	if err != nil {
		return federations.Rendered{}, err
	}
	public, violations := oscar.ParseService(service)
	if len(violations) > 0 {
		return federations.Rendered{}, &store.CorruptError{Key: kv.Key, Err: violations[0]}
	}
	return federations.Rendered{At: r.At, Public: public, Patch: json.RawMessage(patch), Left: spec.Left, Origin: spec.Origin, Sees: r.Desired.Sees}, nil
}

// surrounding is what a plan needs to know about one cluster.
type surrounding struct {
	state    record.ClusterState
	alive    bool
	lastSeen *time.Time
	queue    time.Duration
	// reason is why its OSCAR cannot be reached, with a message.
	reason  record.Reason
	message string
}

// surroundings has the clusters of the members, and the limit of their queues.
type surroundings struct {
	clusters map[string]surrounding
	maxDelay time.Duration
}

func (c *Planner) surroundings(members []record.Member) surroundings {
	out := surroundings{clusters: map[string]surrounding{}, maxDelay: c.cfg.MaxQueueDelay}
	c.state.Read(func(v *view.View) {
		for _, m := range members {
			if !m.Replica() {
				continue
			}
			s := surrounding{alive: v.Alive(m.ClusterID)}
			if reg, ok := v.Clusters.Lookup(m.ClusterID); ok {
				s.state = reg.Rec.State
				if reg.Rec.LastSeen != nil {
					s.lastSeen = &reg.Rec.LastSeen.Time
				}
			}
			if n := v.Nodes.Get(m.ClusterID); n.Self.Rec != nil {
				s.queue, s.reason = time.Duration(n.Self.Rec.QueueS)*time.Second, n.Self.Rec.Reason
				s.message = cmp.Or(v.Trouble(m.ClusterID).Message, "the syncer cannot reach its OSCAR")
			}
			out.clusters[m.ClusterID] = s
		}
	})
	return out
}
