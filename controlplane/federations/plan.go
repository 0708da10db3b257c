package federations

import (
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
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

// Taken says what has the name or a place of a federation that is to be created,
// as far as this instance knows; the transaction that creates it looks again.
func (c *Controller) Taken(owner string, g *topology.Graph) error {
	var named string
	held := map[string]*record.Desired{}
	c.state.Read(func(v *view.View) {
		named = v.Names[record.NameKey(owner, g.GroupID)]
		for _, n := range g.Replicas() {
			held[n.Name()] = v.Desired(n.Member.ClusterID, n.Member.ServiceName).Rec
		}
	})
	if named != "" {
		return c.nameHeld(named, g.GroupID)
	}
	for _, n := range g.Replicas() {
		if d := held[n.Name()]; d != nil {
			return c.LocationHeld(d, n.Member.ClusterID, n.Member.ServiceName)
		}
	}
	return nil
}
