package federations

import (
	"context"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// List lists the federations that the caller may see, by owner and group_id. The result of
// a failed creation is among them until it is swept or has a successor, and federations that are being deleted until
// their last tombstone is acknowledged.
//
// Each page is as the store was at the revision of the first one. What the caller may not see any
// more is not shown, although it could be seen then.
func (c *Controller) List(ctx context.Context, caller identity.Caller, q listing.Query) (*listing.Page[*view.Federation], error) {
	at, err := c.begin(ctx, c.federationTokens, caller, &q, 3)
	if err != nil {
		return nil, err
	}
	s := &federationScan{
		c: c, caller: caller, q: q, reader: c.state.At(at.Revision),
		after: view.FederationPos{Owner: at.After[0], GroupID: at.After[1], UID: at.After[2]},
	}
	list := listing.List[view.Versioned[record.Federation], *view.Federation]{
		Tokens: c.federationTokens, Next: s.next, Show: s.show, AtOnce: shownAtOnce,
		Position: func(f view.Versioned[record.Federation]) []string {
			return []string{f.Rec.Owner, f.Rec.GroupID, f.Rec.UID}
		},
	}
	return list.Page(ctx, caller, &q, at)
}

// begin is where a page begins, in a state that is as new as the store.
func (c *Controller) begin(ctx context.Context, tokens *listing.Tokens, caller identity.Caller, q *listing.Query, parts int) (listing.Position, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return listing.Position{}, err
	}
	var revision int64
	var epoch string
	c.state.Read(func(v *view.View) { revision, epoch = v.Revision, v.Epoch() })
	return tokens.Begin(caller, q, parts, revision, epoch)
}

// shownAtOnce is how many federations are rendered while the state is locked, and scannedAtOnce
// how many are looked at.
const (
	shownAtOnce   = 32
	scannedAtOnce = 2048
)

// federationScan goes through the federations of a query.
type federationScan struct {
	c      *Controller
	caller identity.Caller
	q      listing.Query
	reader *view.PastReader
	after  view.FederationPos
}

// next finds the next federations, most of them at most, and says whether the list ends there.
func (s *federationScan) next(ctx context.Context, most int) (found []view.Versioned[record.Federation], end bool, err error) {
	for !end && len(found) == 0 {
		if end, err = s.look(most, &found); err != nil {
			return nil, false, err
		}
		if found, err = s.c.withLabels(ctx, s.reader.Revision(), s.q, found); err != nil {
			return nil, false, err
		}
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
	}
	return found, end, nil
}

// look goes through some positions, and keeps what matches without its labels: of these few may
// be left, and their definitions are read together.
func (s *federationScan) look(most int, found *[]view.Versioned[record.Federation]) (end bool, err error) {
	if s.q.Labels != nil {
		most = max(most, definitionsAtOnce)
	}
	err = s.reader.Read(func(p *view.Past) {
		left := scannedAtOnce
		for at := range p.Federations(s.after) {
			if left == 0 || len(*found) == most {
				return
			}
			left--
			s.after = at
			if f := p.Federation(at.UID); s.q.MatchesOwner(at.Owner) && !succeeded(p, at, f.Rec) && mayRead(p, s.caller, f.Rec) && matches(p, &s.q, f) {
				*found = append(*found, f)
			}
		}
		end = true
	})
	return end, err
}

// succeeded says whether the result of a failed creation has a later federation of the same name
// beside it. Uids are in the order of time, and so are the positions of one name.
func succeeded(p *view.Past, at view.FederationPos, f *record.Federation) bool {
	if !f.Phase.Result() {
		return false
	}
	for next := range p.Federations(at) {
		return next.Owner == at.Owner && next.GroupID == at.GroupID
	}
	return false
}

// mayRead says whether a caller may see a federation, as it was and as it is now.
func mayRead(p *view.Past, caller identity.Caller, f *record.Federation) bool {
	if !caller.MayRead(f.Owner, f.Visibility, f.AllowedUsers) {
		return false
	}
	now := p.Now.Federations.Get(f.UID).Rec
	return now == nil || now == f || caller.MayRead(now.Owner, now.Visibility, now.AllowedUsers)
}

// matches leaves the labels out, which the definition has, and the owner.
func matches(p *view.Past, q *listing.Query, f view.Versioned[record.Federation]) bool {
	if q.ClusterID != "" && !slices.ContainsFunc(f.Rec.Members, func(m record.Member) bool { return m.ClusterID == q.ClusterID }) {
		return false
	}
	return len(q.Phases) == 0 || q.MatchesPhase(string(p.Show(f).Phase))
}

// withLabels keeps the federations whose definitions have the labels of a query.
func (c *Controller) withLabels(ctx context.Context, revision int64, q listing.Query, feds []view.Versioned[record.Federation]) ([]view.Versioned[record.Federation], error) {
	if q.Labels == nil || len(feds) == 0 {
		return feds, nil
	}
	recs, with := make([]*record.Federation, len(feds)), map[string]bool{}
	for i, f := range feds {
		recs[i] = f.Rec
	}
	err := c.eachDefinitionAt(ctx, revision, recs, func(f *record.Federation, s *oscar.Service, err error) error {
		if err == nil && q.MatchesLabels(s.Labels) {
			with[f.UID] = true
		}
		return err
	})
	return slices.DeleteFunc(feds, func(f view.Versioned[record.Federation]) bool { return !with[f.Rec.UID] }), err
}

// show calls fn with some federations.
func (s *federationScan) show(_ context.Context, found []view.Versioned[record.Federation], fn func(*view.Federation) error) error {
	shown := make([]view.Federation, 0, len(found))
	err := s.reader.Read(func(p *view.Past) {
		for _, f := range found {
			shown = append(shown, p.Show(f))
		}
	})
	if err != nil {
		return err
	}
	for i := range shown {
		if err := fn(&shown[i]); err != nil {
			return err
		}
	}
	return nil
}
