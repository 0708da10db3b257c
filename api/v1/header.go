package v1

// Headers of requests and answers.
const (
	// IdempotencyHeader names a request: the same key gets the same outcome.
	IdempotencyHeader = "Idempotency-Key"
	// PlanHeader binds a creation or a change to a plan: it writes what the plan's digest names, or nothing.
	PlanHeader = "Oscarfed-Plan"
	// ContinueHeader has the token that continues a list.
	ContinueHeader = "Oscarfed-Continue"
	// MissingHeader names what has no part in an answer, and why: "cluster: why; cluster: why".
	MissingHeader = "Oscarfed-Missing"
)
