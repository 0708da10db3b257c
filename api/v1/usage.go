package v1

// Usage is what accounts have in etcd, in bytes.
type Usage struct {
	// BudgetBytes is what one user may have.
	BudgetBytes int64 `json:"budget_bytes"`
	// Accounts has the caller alone or, for the administrator, every account that has anything,
	// the largest first.
	Accounts []AccountUsage `json:"accounts"`
}

// AccountUsage is what one account has in etcd, in bytes.
type AccountUsage struct {
	// Subject is the beginning of a hash while nothing but requests of the account is known.
	Subject string `json:"subject"`
	// UsedBytes count against the budget: all of the following but AuditBytes.
	UsedBytes int64 `json:"used_bytes"`
	// LeftBytes is nil for the administrator, who has no budget.
	LeftBytes *int64 `json:"left_bytes,omitempty"`
	// FederationBytes are records of federations, PartBytes what records share of definitions,
	// DesiredBytes what each cluster is sent, HistoryBytes former and present definitions with
	// their secrets, and DeletedBytes what is kept of deleted replicas.
	FederationBytes int64 `json:"federation_bytes"`
	PartBytes       int64 `json:"part_bytes"`
	DesiredBytes    int64 `json:"desired_bytes"`
	HistoryBytes    int64 `json:"history_bytes"`
	DeletedBytes    int64 `json:"deleted_bytes"`
	// JobBytes are jobs with their events, and RequestBytes requests with an Idempotency-Key.
	JobBytes     int64 `json:"job_bytes"`
	RequestBytes int64 `json:"request_bytes"`
	// FreedBytes were deleted or replaced, and etcd's history still has them. PendingBytes are
	// writes under way. This instance counts both.
	FreedBytes   int64 `json:"freed_bytes"`
	PendingBytes int64 `json:"pending_bytes"`
	// AuditBytes are entries of the audit, which has bounds of its own.
	AuditBytes int64 `json:"audit_bytes"`
}
