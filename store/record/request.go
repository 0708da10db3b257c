package record

// Request makes a repeated request get the outcome of the first. Answer is nil
// until the outcome is known.
type Request struct {
	V         int    `json:"v"`
	BodyHash  string `json:"body_hash"`
	UID       string `json:"uid" record:"id"`
	RequestID string `json:"request_id" record:"id"`
	CreatedAt Time   `json:"created_at"`
	// Keyed is false for a request that came without an Idempotency-Key: it
	// joins the one in flight, and is forgotten once there is an outcome.
	Keyed  bool    `json:"keyed"`
	Answer *Answer `json:"answer,omitempty"`
}

// Answer is the outcome of a request: the federation as it stood then.
type Answer struct {
	Phase Phase `json:"phase"`
	// Federation holds causes and rollbacks of a failed creation, and why a change
	// was refused.
	Federation *Federation `json:"federation,omitempty"`
	// Batch holds the federations of a request that created several.
	Batch []*Federation `json:"batch,omitempty"`
}
