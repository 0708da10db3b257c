package v1

// ProblemType is the media type of a Problem (RFC 9457).
const ProblemType = "application/problem+json"

// ProblemURN begins the type of every Problem; the code follows.
const ProblemURN = "urn:oscarfed:problem:"

// The codes of a Problem.
const (
	CodeInvalid            = "invalid"
	CodeUnauthenticated    = "unauthenticated"
	CodeForbidden          = "forbidden"
	CodeNotFound           = "not_found"
	CodeAlreadyExists      = "already_exists"
	CodeConflict           = "conflict"
	CodeTooLarge           = "too_large"
	CodeUnsupportedType    = "unsupported_type"
	CodeFailedPrecondition = "failed_precondition"
	CodeReplicaFailed      = "replica_failed"
	CodeExpired            = "expired"
	CodeExhausted          = "exhausted"
	CodeUnavailable        = "unavailable"
	CodeUnknownOutcome     = "unknown_outcome"
	CodeNotServed          = "not_served"
	CodeInternal           = "internal"
)

// Problem is the body of an answer that is an error.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
	// Instance is the path of the request, or of what can be looked at instead.
	Instance  string `json:"instance"`
	RequestID string `json:"request_id"`

	// The outcome of a creation that failed.
	GroupID  string          `json:"group_id,omitempty"`
	Phase    string          `json:"phase,omitempty"`
	Rollback string          `json:"rollback,omitempty"`
	Replicas []FailedReplica `json:"replicas,omitempty"`

	// Violations of an invalid request: all of them.
	Violations []Violation `json:"violations,omitempty"`

	// Clusters that a bare service name could mean: choose with ?cluster_id=.
	Clusters []string `json:"clusters,omitempty"`
}

// Violation is one rule that a request breaks.
type Violation struct {
	// Path is the JSON path in what was submitted; ?name for a parameter of the
	// query and the header's name for a header.
	Path string `json:"path"`
	// Rule is required, one_of, unique, no_self, known_cluster, allowed_cluster, name, quantity,
	// max_length, max_bytes, max_members, type, defined_provider or shared_bucket.
	Rule string `json:"rule"`
	// Value is what was found there; absent when it says nothing, never a secret.
	Value   any    `json:"value,omitempty"`
	Message string `json:"message"`
}
