package federations

import (
	"fmt"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// LocationHeld tells that a desired record, whose ever it is, stands at a place, and the
// ways out.
func (c *Controller) LocationHeld(d *record.Desired, cluster, service string) error {
	at := cluster + "/" + service
	e := &fault.Error{Code: fault.CodeAlreadyExists, Message: at + ": a federated service of this name exists already; choose another name"}
	if !d.Tombstone() {
		return e
	}
	e.Message = at + ": a deletion of a service of this name waits for the cluster; try again when it is done, or choose another name"
	var why string
	c.state.Read(func(v *view.View) {
		why = v.Replica(record.Member{ClusterID: cluster, ServiceName: service, UID: d.UID}, -1).WhyAway()
	})
	if why != "" {
		e.Message = fmt.Sprintf("%s: a deletion of a service of this name waits for cluster %q (%s), and holds the name there until it is done: "+
			"leave the cluster out, choose another service name, or, if the cluster is gone for good, have it removed (oscarfed cluster remove %s)",
			at, cluster, why, cluster)
	}
	return e
}
