package record

// Version is the first field of every record.
const Version = 1

// Intent is what a desired record asks of its syncer.
type Intent string

// The intents. A record with IntentDelete is a tombstone.
const (
	IntentPrepare Intent = "prepare"
	IntentApply   Intent = "apply"
	IntentDelete  Intent = "delete"
)

// Cause says why a tombstone was written.
type Cause string

// The causes of a tombstone.
const (
	CauseRollback Cause = "rollback"
	CauseRemoved  Cause = "removed"
	CauseDeleted  Cause = "deleted"
)

// Phase is a state of a federation or of a replica.
type Phase string

// Phases of a federation. The first seven are stored decisions; Changing and Degraded are computed
// at each read.
const (
	PhasePreparing   Phase = "preparing"
	PhaseApplying    Phase = "applying"
	PhaseReady       Phase = "ready"
	PhaseAborted     Phase = "aborted"
	PhaseRollingBack Phase = "rolling_back"
	PhaseRolledBack  Phase = "rolled_back"
	PhaseDeleting    Phase = "deleting"
	PhaseChanging    Phase = "changing"
	PhaseDegraded    Phase = "degraded"
)

// Phases of a replica. A syncer reports Prepared, Refused, Ready, Failed,
// Drifted, Held, Wedged and Deleted, and Pending beside a vote that it cannot give yet;
// otherwise Pending, Applying, Deleting and Unreachable are computed from intent and session.
const (
	PhasePrepared    Phase = "prepared"
	PhaseRefused     Phase = "refused"
	PhaseFailed      Phase = "failed"
	PhaseDrifted     Phase = "drifted"
	PhaseHeld        Phase = "held"
	PhaseWedged      Phase = "wedged"
	PhaseDeleted     Phase = "deleted"
	PhasePending     Phase = "pending"
	PhaseUnreachable Phase = "unreachable"
)

// InFlight says whether a creation has not reached its outcome yet.
func (p Phase) InFlight() bool {
	return p == PhasePreparing || p == PhaseApplying || p == PhaseRollingBack
}

// Result says whether p is the kept outcome of a creation that left nothing: it
// does not hold the federation's name.
func (p Phase) Result() bool { return p == PhaseAborted || p == PhaseRolledBack }

// Reason is a machine-readable cause of a replica's phase.
type Reason string

// The reasons.
const (
	ReasonNameTaken          Reason = "NameTaken"
	ReasonForeignBucket      Reason = "ForeignBucket"
	ReasonBucketLeft         Reason = "BucketLeft"
	ReasonCredentialRefused  Reason = "CredentialRefused"
	ReasonNotAllowed         Reason = "NotAllowed"
	ReasonDoesNotFit         Reason = "DoesNotFit"
	ReasonInputsUnreadable   Reason = "InputsUnreadable"
	ReasonUnsupportedVersion Reason = "UnsupportedVersion"
	ReasonInvalidService     Reason = "InvalidService"
	ReasonNoVote             Reason = "NoVote"
	ReasonQueueTooLong       Reason = "QueueTooLong"
	ReasonOscarUnreachable   Reason = "OscarUnreachable"
	ReasonStorageUnreachable Reason = "StorageUnreachable"
	ReasonNoLease            Reason = "NoLease"
	ReasonCreateFailed       Reason = "CreateFailed"
	ReasonUpdateFailed       Reason = "UpdateFailed"
	ReasonDeleteFailed       Reason = "DeleteFailed"
	ReasonDetachFailed       Reason = "DetachFailed"
	ReasonUnknownOutcome     Reason = "UnknownOutcome"
	ReasonDrifted            Reason = "Drifted"
	ReasonDriftUnfixable     Reason = "DriftUnfixable"
	ReasonWebhookLost        Reason = "WebhookLost"
	ReasonMarkLost           Reason = "MarkLost"
	ReasonAheadOfDesired     Reason = "AheadOfDesired"
	ReasonNeedsUserToken     Reason = "NeedsUserToken"
	ReasonTokenHolderAway    Reason = "TokenHolderAway"
	ReasonTokenLost          Reason = "TokenLost"
	ReasonSessionLost        Reason = "SessionLost"
	ReasonPaused             Reason = "Paused"
	ReasonSecretsLost        Reason = "SecretsLost"
	ReasonJobsRunning        Reason = "JobsRunning"
	ReasonApplied            Reason = "Applied"
	ReasonDeleted            Reason = "Deleted"
	ReasonClusterRemoving    Reason = "ClusterRemoving"
	ReasonOtherRegistration  Reason = "OtherRegistration"
	ReasonOtherIdentity      Reason = "OtherIdentity"
	ReasonSameOscar          Reason = "SameOscar"
	ReasonStoreRestored      Reason = "StoreRestored"
	ReasonNewerVersion       Reason = "NewerVersion"
)

// RunState says whether the instances of an exposed service run. OSCAR keeps it outside the definition.
type RunState string

// The run states. Without one nothing was ever ordered, and what the cluster does is left alone.
const (
	RunStarted RunState = "started"
	RunStopped RunState = "stopped"
)

// HeldKind is how a cluster differs from a store that was restored.
type HeldKind string

// The kinds. HeldAhead: a service of a generation, or of an epoch, that the store
// does not have. HeldMissing: one that was applied is gone, perhaps deleted in the
// history that was lost.
const (
	HeldAhead   HeldKind = "ahead"
	HeldMissing HeldKind = "missing"
)

// ClusterState is what the control plane wants of a cluster.
type ClusterState string

// The states of a cluster.
const (
	ClusterActive   ClusterState = "active"
	ClusterPaused   ClusterState = "paused"
	ClusterCordoned ClusterState = "cordoned"
	ClusterRemoving ClusterState = "removing"
	// ClusterRevoked has passed the limits of what it may write: it has no rights in
	// etcd, and nothing is placed on it, until the administrator readmits it.
	ClusterRevoked ClusterState = "revoked"
	// ClusterRemoved is told to the syncer of a cluster that is registered no more,
	// for as long as tombstones wait for it.
	ClusterRemoved ClusterState = "removed"
)

// Closed says whether a cluster takes no new replicas.
func (s ClusterState) Closed() bool {
	return s == ClusterCordoned || s == ClusterRemoving || s == ClusterRevoked
}

// Vote answers.
const (
	VoteYes = "yes"
	VoteNo  = "no"
)

// RollbackState is what became of one replica of a creation that failed.
type RollbackState string

// The states of a rollback: of the whole federation (NotNeeded, Complete,
// Pending, Failed) and of one replica (NotCreated, Deleted, Pending, Failed, Kept).
const (
	RollbackNotNeeded  RollbackState = "not_needed"
	RollbackComplete   RollbackState = "complete"
	RollbackPending    RollbackState = "pending"
	RollbackFailed     RollbackState = "failed"
	RollbackNotCreated RollbackState = "not_created"
	RollbackDeleted    RollbackState = "deleted"
	RollbackKept       RollbackState = "kept"
)
