package record

// Audit is one entry of the audit: who did what, and what became of it. It is written
// in the transaction that does it, and never changed. What takes several
// transactions has an entry for its acceptance and one for its outcome, with the
// same request id.
type Audit struct {
	V  int  `json:"v"`
	At Time `json:"at"`
	// By is the subject of the caller; empty when the control plane acts by itself.
	By      string  `json:"by,omitempty"`
	Action  Action  `json:"action"`
	Outcome Outcome `json:"outcome"`
	// Federation, Owner, GroupID and Generation say of which federation, when it is
	// about one.
	Federation string `json:"federation,omitempty"`
	Owner      string `json:"owner,omitempty"`
	GroupID    string `json:"group_id,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	ClusterID  string `json:"cluster_id,omitempty"`
	RequestID  string `json:"request_id,omitempty"`
	// Detail is one sentence, without secrets.
	Detail string `json:"detail,omitempty"`
}

// Action is what was done.
type Action string

// The actions.
const (
	ActionCreate          Action = "create"
	ActionChange          Action = "change"
	ActionDelete          Action = "delete"
	ActionOrder           Action = "order"
	ActionPause           Action = "pause"
	ActionResume          Action = "resume"
	ActionStop            Action = "stop"
	ActionStart           Action = "start"
	ActionAdopt           Action = "adopt"
	ActionRotateToken     Action = "rotate_token"
	ActionResolve         Action = "resolve"
	ActionReadToken       Action = "read_refresh_token"
	ActionGiveToken       Action = "give_refresh_token"
	ActionDeleteToken     Action = "delete_refresh_token"
	ActionRegisterCluster Action = "register_cluster"
	ActionUpdateCluster   Action = "update_cluster"
	ActionClusterState    Action = "set_cluster_state"
	ActionRemoveCluster   Action = "remove_cluster"
	ActionIssueJoin       Action = "issue_join_token"
	ActionJoin            Action = "join"
	ActionCancelJob       Action = "cancel_job"
	ActionReplayJob       Action = "replay_job"
	ActionResolveJob      Action = "resolve_job"
	ActionFinishUpgrade   Action = "finish_upgrade"
)

// Outcome is what became of it.
type Outcome string

// The outcomes. Accepted is followed by another one.
const (
	OutcomeAccepted   Outcome = "accepted"
	OutcomeDone       Outcome = "done"
	OutcomeRefused    Outcome = "refused"
	OutcomeFailed     Outcome = "failed"
	OutcomeRolledBack Outcome = "rolled_back"
	// OutcomeUnknown: the process that did it ended before it could write the outcome.
	OutcomeUnknown Outcome = "unknown"
)
