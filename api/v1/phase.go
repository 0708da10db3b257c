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

// States of clusters.
const (
	ClusterActive   = "active"
	ClusterPaused   = "paused"
	ClusterCordoned = "cordoned"
	ClusterRemoving = "removing"
	ClusterRevoked  = "revoked"
)
