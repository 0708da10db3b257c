package controlplane

import (
	"context"
	"fmt"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
)

// serviceAt is the place of a service.
type serviceAt struct{ cluster, service string }

// ServiceCaller is who shows the own token of a service of that name. It answers
// identity.ErrUnauthenticated (wrapped) for every token that is not one, whether there
// is a service of the name or not: the token is looked up by its hash among the marks
// of all services, and only then compared with the name, so that neither answer nor
// time tells. A token dies with the life of its service, and when it is changed.
func (c *ControlPlane) ServiceCaller(ctx context.Context, service, token string) (identity.Caller, error) {
	// A change that another instance has made must count here at once, for a token that
	// is taken away as for one that was made a moment ago.
	if err := c.fresh(ctx); err != nil {
		return identity.Caller{}, err
	}
	if uid := c.bearerOfDoor(service, token); uid != "" {
		return identity.OfService(uid), nil
	}
	if uid := c.bearerOf(record.Mark(token), service); uid != "" {
		caller := identity.OfService(uid)
		caller.LifeToken = true
		return caller, nil
	}
	return identity.Caller{}, fmt.Errorf("%w: it is no token of this service", identity.ErrUnauthenticated)
}

// bearerOf is the uid of the replica that has the mark and the name; empty for none, and
// for one whose tokens were changed: the mark cannot be.
func (c *ControlPlane) bearerOf(mark, service string) (uid string) {
	c.state.read(func(v *View) {
		at, ok := v.marked[mark]
		if !ok || at.service != service {
			return
		}
		d := v.desired(at.cluster, at.service).rec
		if d == nil || d.Mark != mark || d.Tombstone() {
			return
		}
		if f := v.federations[d.Federation].rec; f != nil && f.TokenRotation == 0 && f.Phase != record.PhaseDeleting && !f.Phase.Result() {
			uid = d.UID
		}
	})
	return uid
}
