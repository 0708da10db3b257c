package services

import (
	"slices"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
)

// ofFailed gives the replicas of a creation that failed its own phase: they are not deleted, since
// they never were, or were not to stay.
func ofFailed(phase string, replicas []v1.Replica) []v1.Replica {
	if phase != v1.PhaseAborted && phase != v1.PhaseRolledBack {
		return replicas
	}
	replicas = slices.Clone(replicas)
	for i := range replicas {
		if replicas[i].Status == nil || replicas[i].Status.Phase != v1.PhaseDeleted {
			continue
		}
		status := *replicas[i].Status
		status.Phase = phase
		if status.Reason == "Deleted" {
			status.Reason = ""
		}
		replicas[i].Status = &status
	}
	return replicas
}

// leftOfFailed says what is left of a creation that failed; empty for what has not.
func leftOfFailed(phase, service string) string {
	switch phase {
	case v1.PhaseAborted:
		return "its creation was aborted, and nothing of it is on a cluster; oscarfed delete " + service + " forgets it"
	case v1.PhaseRolledBack:
		return "its creation was taken back; oscarfed delete " + service + " forgets it"
	}
	return ""
}

// sayFailed says of a creation that failed what is left of it. Only its coordinator can be forgotten.
func sayFailed(a *command.App, view *v1.Replicas, service string) {
	if left := leftOfFailed(view.Phase, view.Coordinator.ServiceName); left != "" {
		a.Sayf("%s: %s", service, left)
	}
}
