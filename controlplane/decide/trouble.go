package decide

import (
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

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
func adviseBestEffort(s view.Situation, f *record.Failure, late bool) *record.Failure {
	if f == nil || !passes(f.Reason) || s.Fed.Deployment == oscar.DeploymentBestEffort {
		return f
	}
	for _, r := range s.Replicas {
		v := r.Vote()
		if v != nil && v.Answer == record.VoteYes || v == nil && !late && r.Alive && r.Trouble.Reason == "" && !r.Reported(record.PhasePending) {
			f.Message += "; deployment best-effort creates it on the others now and here later"
			break
		}
	}
	return f
}

// awayWith tells that a cluster which is to be removed does not answer.
func awayWith(s ClusterSituation, services int) string {
	why, way := "no syncer has ever connected", "start its syncer"
	switch {
	case s.trouble.Away:
		why, way = s.trouble.Message, "mend that"
	case s.reg.LastSeen != nil:
		why = "no syncer since " + s.reg.LastSeen.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("cluster %q is away (%s) and has %d federated services: %s, or use force: "+
		"their federations go on without them at once, and the orders to delete them wait for the cluster", s.reg.ClusterID, why, services, way)
}
