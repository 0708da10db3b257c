package v1

// Phases of federations and replicas that clients look for; openapi.yaml has all of them.
const (
	PhasePreparing   = "preparing"
	PhaseApplying    = "applying"
	PhaseReady       = "ready"
	PhaseAborted     = "aborted"
	PhaseRollingBack = "rolling_back"
	PhaseRolledBack  = "rolled_back"
	PhaseDeleting    = "deleting"
	PhaseDeleted     = "deleted"
)
