package controlplane

import (
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

// trouble is why nothing can be done on a cluster although its syncer is connected, as
// that tells it; the zero value is none.
type trouble struct {
	reason  record.Reason
	message string
	// away says that it has been so for so long that nobody waits for the cluster.
	away bool
}

// maxTrouble is how much of a syncer's words about its cluster is passed on, in bytes.
const maxTrouble = 600

func (v *View) trouble(cluster string) trouble {
	n := v.nodes[cluster]
	if n == nil || n.session.rec == nil || n.self.rec == nil {
		return trouble{}
	}
	switch self := n.self.rec; self.Reason {
	case record.ReasonOscarUnreachable, record.ReasonStorageUnreachable, record.ReasonCredentialRefused, record.ReasonNoLease:
		out := trouble{reason: self.Reason, message: cut(self.Message, maxTrouble), away: self.Away}
		if out.message == "" { // an older syncer gives none
			out.message = "the syncer cannot work with its OSCAR"
		}
		return out
	}
	return trouble{}
}

// passes says that a replica which is refused for it can be made later, without a change
// of the request.
func passes(r record.Reason) bool {
	switch r {
	case record.ReasonNoVote, record.ReasonOscarUnreachable, record.ReasonStorageUnreachable, record.ReasonCredentialRefused:
		return true
	}
	return false
}

// adviseBestEffort adds best effort as a way out to a cause, where it is one: it is not
// chosen yet, the obstacle may pass, and somebody is left who can create now.
func (s situation) adviseBestEffort(f *record.Failure, late bool) *record.Failure {
	if f == nil || !passes(f.Reason) || s.fed.Deployment == oscar.DeploymentBestEffort {
		return f
	}
	for _, r := range s.replicas {
		v := r.vote()
		if v != nil && v.Answer == record.VoteYes || v == nil && !late && r.alive && r.trouble.reason == "" && !r.reported(record.PhasePending) {
			f.Message += "; deployment best-effort creates it on the others now and here later"
			break
		}
	}
	return f
}

// whyAway says why a cluster is away; empty when it is not.
func (r replicaState) whyAway() string {
	switch {
	case !r.alive:
		return away(r.lastSeen)
	case r.trouble.away:
		return r.trouble.message
	case r.stopped:
		return "the cluster is paused"
	}
	return ""
}

// placeHeld tells that a desired record, whose ever it is, stands at a place, and the
// ways out.
func (c *ControlPlane) placeHeld(d *record.Desired, cluster, service string) error {
	at := cluster + "/" + service
	e := &Error{Code: CodeAlreadyExists, Message: at + ": a federated service of this name exists already; choose another name"}
	if !d.Tombstone() {
		return e
	}
	e.Message = at + ": a deletion of a service of this name waits for the cluster; try again when it is done, or choose another name"
	var why string
	c.state.read(func(v *View) {
		why = v.replica(record.Member{ClusterID: cluster, ServiceName: service, UID: d.UID}, -1).whyAway()
	})
	if why != "" {
		e.Message = fmt.Sprintf("%s: a deletion of a service of this name waits for cluster %q (%s), and holds the name there until it is done: "+
			"leave the cluster out, choose another service name, or, if the cluster is gone for good, have it removed (oscarfed cluster remove %s)",
			at, cluster, why, cluster)
	}
	return e
}

// awayWith tells that a cluster which is to be removed does not answer.
func awayWith(s clusterSituation, services int) string {
	why, way := "no syncer has ever connected", "start its syncer"
	switch {
	case s.trouble.away:
		why, way = s.trouble.message, "mend that"
	case s.reg.LastSeen != nil:
		why = "no syncer since " + s.reg.LastSeen.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("cluster %q is away (%s) and has %d federated services: %s, or use force: "+
		"their federations go on without them at once, and the orders to delete them wait for the cluster", s.reg.ClusterID, why, services, way)
}
