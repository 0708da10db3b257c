package v1

// Phases of federations and replicas.
const (
	PhasePreparing   = "preparing"
	PhaseApplying    = "applying"
	PhaseReady       = "ready"
	PhaseAborted     = "aborted"
	PhaseRollingBack = "rolling_back"
	PhaseRolledBack  = "rolled_back"
	PhaseDeleting    = "deleting"
	PhaseChanging    = "changing"
	PhaseDegraded    = "degraded"
	PhasePrepared    = "prepared"
	PhaseRefused     = "refused"
	PhaseFailed      = "failed"
	PhaseDrifted     = "drifted"
	PhaseHeld        = "held"
	PhaseWedged      = "wedged"
	PhaseDeleted     = "deleted"
	PhasePending     = "pending"
	PhaseUnreachable = "unreachable"
)

// FederationPhases lists those that a federation can be in.
func FederationPhases() []string {
	return []string{
		PhasePreparing, PhaseApplying, PhaseReady, PhaseAborted, PhaseRollingBack, PhaseRolledBack, PhaseDeleting, PhaseChanging, PhaseDegraded,
	}
}

// Phases lists those of federations and of replicas.
func Phases() []string {
	return append(FederationPhases(), PhasePrepared, PhaseRefused, PhaseFailed, PhaseDrifted, PhaseHeld, PhaseWedged, PhaseDeleted,
		PhasePending, PhaseUnreachable)
}

// ClusterStates lists all states of a cluster.
func ClusterStates() []string {
	return []string{ClusterActive, ClusterPaused, ClusterCordoned, ClusterRemoving, ClusterRevoked}
}

// States of clusters.
const (
	ClusterActive   = "active"
	ClusterPaused   = "paused"
	ClusterCordoned = "cordoned"
	ClusterRemoving = "removing"
	ClusterRevoked  = "revoked"
)
