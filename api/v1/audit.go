package v1

// AuditEntry is an element of GET /system/audit: who did what, and what became of it.
type AuditEntry struct {
	// ID orders the entries by time.
	ID string `json:"id"`
	At Time   `json:"at"`
	// By is the subject of the caller; empty when the control plane acted by itself.
	By string `json:"by"`
	// Action is create, change, delete, order, pause, resume, stop, start, adopt, resolve, read_refresh_token, give_refresh_token, delete_refresh_token,
	// register_cluster, and others.
	Action string `json:"action"`
	// Outcome is accepted, done, refused, failed, rolled_back or unknown.
	Outcome    string `json:"outcome"`
	Federation string `json:"federation,omitempty"`
	Owner      string `json:"owner,omitempty"`
	GroupID    string `json:"group_id,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	ClusterID  string `json:"cluster_id,omitempty"`
	RequestID  string `json:"request_id,omitempty"`
	Detail     string `json:"detail"`
}
