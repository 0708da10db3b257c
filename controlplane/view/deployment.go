package view

import (
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// Deployment is the deployment status of a service, in OSCAR's words.
type Deployment struct {
	// State is pending, ready, degraded, failed, stopped or unavailable.
	State string
	// Reason names the first replica that is not ready, and why; empty when all are.
	Reason string
	// Ready and Others count replicas.
	Ready, Others      int
	LastTransitionTime time.Time
}

const (
	deploymentPending     = "pending"
	deploymentReady       = "ready"
	deploymentDegraded    = "degraded"
	deploymentFailed      = "failed"
	deploymentStopped     = "stopped"
	deploymentUnavailable = "unavailable"
)

// DeploymentOf is the status of a whole federation when self is its coordinator, and of one
// replica otherwise. Members of type endpoint do not count.
func DeploymentOf(members []Replica, self int) Deployment {
	if !members[self].Coordinator {
		members = members[self : self+1]
	}
	var out Deployment
	states := map[string]int{}
	for _, m := range members {
		if m.Status == nil {
			continue
		}
		state := deploymentState(m.Status)
		states[state]++
		switch {
		case state == deploymentReady:
			out.Ready++
		case state == deploymentStopped:
		default:
			if out.Others++; out.Reason == "" {
				out.Reason = m.notReady()
			}
		}
		if m.Status.LastTransitionTime.After(out.LastTransitionTime) {
			out.LastTransitionTime = m.Status.LastTransitionTime
		}
	}
	if out.Ready > 0 && out.Others > 0 {
		out.State = deploymentDegraded
		return out
	}
	for _, state := range []string{deploymentReady, deploymentDegraded, deploymentFailed, deploymentPending, deploymentUnavailable, deploymentStopped} {
		if states[state] > 0 {
			out.State = state
			if state == deploymentStopped {
				out.Reason = "Deployment is stopped."
			}
			break
		}
	}
	return out
}

// deploymentState is OSCAR's word for the status of a replica. A drifted or held replica is
// there, but not as it was asked for: it is degraded.
func deploymentState(st *Status) string {
	switch st.Phase {
	case record.PhaseReady:
		if st.RunState == record.RunStopped {
			return deploymentStopped
		}
		return deploymentReady
	case record.PhaseDrifted, record.PhaseHeld:
		return deploymentDegraded
	case record.PhaseFailed, record.PhaseWedged, record.PhaseRefused:
		return deploymentFailed
	case record.PhaseUnreachable:
		return deploymentUnavailable
	}
	return deploymentPending
}

// notReady says why a replica is not ready.
func (r Replica) notReady() string {
	out := r.ClusterID + "/" + r.ServiceName + ": " + string(r.Status.Phase)
	if r.Status.Reason != "" {
		out += " (" + string(r.Status.Reason) + ")"
	}
	if r.Status.Message != "" {
		out += ": " + r.Status.Message
	}
	return out
}
