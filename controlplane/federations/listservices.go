package federations

import (
	"context"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// ListedService is a replica in the form in which OSCAR shows a service, and how it stands.
type ListedService struct {
	Service *oscar.Service
	// Deployment is nil unless it was asked for.
	Deployment *view.Deployment
}

// Services lists every replica that the caller may see, by name and then by cluster, in the form
// in which OSCAR shows a service: secrets empty, the service's own token in clear. A coordinator
// shows the federation as its definition has it. deployments says that it is told how each stands.
// Definitions of pages are read at the revision of the page.
func (c *Controller) Services(ctx context.Context, caller identity.Caller, q listing.Query, deployments bool) (*listing.Page[ListedService], error) {
	s := &serviceScan{c: c, caller: caller, q: q, deployments: deployments}
	return pageOf(ctx, s, c.serviceTokens, s.show)
}

// ReplicaStatuses lists how every replica stands that the caller may see, by name and then by cluster,
// without definitions.
func (c *Controller) ReplicaStatuses(ctx context.Context, caller identity.Caller, q listing.Query) (*listing.Page[v1.ServiceStatus], error) {
	s := &serviceScan{c: c, caller: caller, q: q}
	return pageOf(ctx, s, c.replicaTokens, s.showStatus)
}

// pageOf is the page of a list of replicas, which show shows.
func pageOf[T any](ctx context.Context, s *serviceScan, tokens *listing.Tokens, show func(context.Context, []view.MemberRef, func(T) error) error) (*listing.Page[T], error) {
	at, err := s.c.begin(ctx, tokens, s.caller, &s.q, 3)
	if err != nil {
		return nil, err
	}
	s.reader = s.c.state.At(at.Revision)
	s.after = view.ReplicaPos{Service: at.After[0], Cluster: at.After[1], UID: at.After[2]}
	if s.q.Limit > 0 || s.q.Continue != "" {
		s.readAt = at.Revision
	}
	list := listing.List[view.MemberRef, T]{
		Tokens: tokens, Next: s.next, Show: show, AtOnce: aheadOf,
		Position: func(p view.MemberRef) []string { return []string{p.At().ServiceName, p.At().ClusterID, p.UID} },
	}
	return list.Page(ctx, s.caller, &s.q, at)
}

// aheadOf is how many replicas are shown with one read of their definitions.
const aheadOf = 128

// serviceScan goes through the replicas of a query.
type serviceScan struct {
	c           *Controller
	caller      identity.Caller
	q           listing.Query
	reader      *view.PastReader
	deployments bool
	after       view.ReplicaPos
	// readAt is the revision that definitions are read at; 0 is the newest.
	readAt int64
	// definitions are those that the last replicas were shown with, by federation; nil for one
	// that is gone.
	definitions map[string]*oscar.Service
}

// next finds the next replicas, most of them at most, and says whether the list ends there.
func (s *serviceScan) next(ctx context.Context, most int) (found []view.MemberRef, end bool, err error) {
	for !end && len(found) == 0 {
		if end, err = s.look(most, &found); err != nil {
			return nil, false, err
		}
		if s.q.Labels != nil && len(found) > 0 {
			if err := s.read(ctx, found); err != nil {
				return nil, false, err
			}
			found = slices.DeleteFunc(found, func(p view.MemberRef) bool {
				d := s.definitions[p.UID]
				return d == nil || !s.q.MatchesLabels(d.Labels)
			})
		}
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
	}
	return found, end, nil
}

// look goes through some positions, and keeps what matches without its labels: of these few may
// be left, and their definitions are read together.
func (s *serviceScan) look(most int, found *[]view.MemberRef) (end bool, err error) {
	if s.q.Labels != nil {
		most = max(most, aheadOf)
	}
	err = s.reader.Read(func(p *view.Past) {
		left := scannedAtOnce
		for at := range p.Replicas(s.after) {
			if left == 0 || len(*found) == most {
				return
			}
			left--
			s.after = at
			f := p.Federation(at.UID)
			if s.q.ClusterID != "" && at.Cluster != s.q.ClusterID || !s.q.MatchesOwner(f.Rec.Owner) || f.Rec.Phase == record.PhaseDeleting ||
				f.Rec.Phase.Result() || !mayRead(p, s.caller, f.Rec) {
				continue
			}
			i := slices.IndexFunc(f.Rec.Members, func(m record.Member) bool {
				return m.Replica() && m.ServiceName == at.Service && m.ClusterID == at.Cluster
			})
			m := f.Rec.Members[i]
			if len(s.q.Phases) > 0 && !s.q.MatchesPhase(string(p.ViewOf(f.Rec).Replica(m, i).Status(f.Rec, m).Phase)) {
				continue
			}
			*found = append(*found, view.MemberRef{UID: at.UID, Member: i, Rec: f.Rec, Rev: f.Rev})
		}
		end = true
	})
	return end, err
}

// show calls fn with some replicas. Those of a definition that is gone are left out.
func (s *serviceScan) show(ctx context.Context, found []view.MemberRef, fn func(ListedService) error) error {
	if err := s.read(ctx, found); err != nil {
		return err
	}
	states, err := s.states(found)
	if err != nil {
		return err
	}
	for i, p := range found {
		if d := s.definitions[p.UID]; d != nil {
			if err := fn(ListedService{Service: s.c.shown(d, p), Deployment: states[i]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// showStatus calls fn with how some replicas stand.
func (s *serviceScan) showStatus(_ context.Context, found []view.MemberRef, fn func(v1.ServiceStatus) error) error {
	federations := map[string]v1.Federation{}
	err := s.reader.Read(func(past *view.Past) {
		for _, p := range found {
			if _, is := federations[p.UID]; !is {
				shown := past.Show(view.Versioned[record.Federation]{Rec: p.Rec, Rev: p.Rev})
				federations[p.UID] = shown.Wire(s.c.cfg.Now())
			}
		}
	})
	if err != nil {
		return err
	}
	for _, p := range found {
		f := federations[p.UID]
		if err := fn(f.ServiceStatus(f.Replicas[p.Member])); err != nil {
			return err
		}
	}
	return nil
}

// states tell how replicas stand; each is nil when that is not asked for.
func (s *serviceScan) states(found []view.MemberRef) ([]*view.Deployment, error) {
	out := make([]*view.Deployment, len(found))
	if !s.deployments {
		return out, nil
	}
	members := map[string][]view.Replica{}
	return out, s.reader.Read(func(past *view.Past) {
		for i, p := range found {
			if members[p.UID] == nil {
				members[p.UID] = past.Show(view.Versioned[record.Federation]{Rec: p.Rec, Rev: p.Rev}).Members
			}
			out[i] = new(view.DeploymentOf(members[p.UID], p.Member))
		}
	})
}

// read reads the definitions of replicas, and forgets those of others. Replicas of one federation
// are mostly next to each other.
func (s *serviceScan) read(ctx context.Context, found []view.MemberRef) error {
	known := map[string]*oscar.Service{}
	var next []*record.Federation
	for _, p := range found {
		if _, is := known[p.UID]; is {
			continue
		}
		d, is := s.definitions[p.UID]
		if known[p.UID] = d; !is {
			next = append(next, p.Rec)
		}
	}
	s.definitions = known
	return s.c.eachDefinitionAt(ctx, s.readAt, next, func(f *record.Federation, d *oscar.Service, err error) error {
		known[f.UID] = d
		return err
	})
}
