package decide

// Step names what a decision does. Logs, metrics and fail points bear its name, and the entry that the audit
// gets of a decision follows from it. The empty one does nothing.
type Step string

// The steps of a creation.
const (
	// StepCommit is transaction B.
	StepCommit Step = "commit"
	StepAbort  Step = "abort"
	StepReady  Step = "ready"
	// StepJoin applies what a best-effort creation could not make at first.
	StepJoin             Step = "join"
	StepRollBack         Step = "roll_back"
	StepPartlyRolledBack Step = "partly_rolled_back"
	StepRolledBack       Step = "rolled_back"
	// StepAskAgain and StepAccept go on after a restore.
	StepAskAgain Step = "ask_again"
	StepAccept   Step = "accept"
	// StepAcknowledged removes late tombstones of a result, and StepForgotten the result.
	StepAcknowledged Step = "acknowledged"
	StepForgotten    Step = "forgotten"
)

// The steps of a change.
const (
	StepChange       Step = "change"
	StepRefuseChange Step = "refuse_change"
	// StepResolve is a change by which a person decides what is held.
	StepResolve     Step = "resolve"
	StepPause       Step = "pause"
	StepRunState    Step = "run_state"
	StepRotateToken Step = "rotate_token"
	// StepAdopted ends a federation whose service became a member of another one.
	StepAdopted Step = "adopted"
	// StepLeave is the change that takes the members off a cluster that is removed.
	StepLeave Step = "leave"
	// StepLeft removes the acknowledged tombstones of removed members.
	StepLeft Step = "left"
	// StepWhole sends a replica a spec without parts.
	StepWhole Step = "whole"
)

// The steps of a deletion.
const (
	StepDelete Step = "delete"
	// StepDisband is a deletion because the coordinator's cluster is removed.
	StepDisband Step = "disband"
	// StepHurry gives tombstones new orders.
	StepHurry         Step = "hurry"
	StepPartlyDeleted Step = "partly_deleted"
	StepDeleted       Step = "deleted"
)
