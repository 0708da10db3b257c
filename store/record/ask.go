package record

// Ask is a question of the control plane to a syncer: what stands at a service name,
// for a person who decided that it is to be kept.
type Ask struct {
	V         int    `json:"v"`
	UID       string `json:"uid" record:"id"`
	RequestID string `json:"request_id" record:"id"`
	// Recipient is the recipient that the answer is sealed to: the control plane.
	Recipient string `json:"recipient"`
	AskedAt   Time   `json:"asked_at"`
	// By is the subject of the person who decided; empty when an older version asks.
	By string `json:"by,omitempty"`
	// Held is what was held there when the person decided; nil when an older version asks. A service with
	// higher marks is another one than that which was looked at.
	Held *Branch `json:"held,omitempty"`
}

// Allows says whether an answer is about what was decided on.
func (a *Ask) Allows(s *Shown) bool {
	return a.Held == nil || s.Generation == 0 || s.Epoch == a.Held.Epoch && s.Generation <= a.Held.Generation
}

// Shown is the answer: the service as OSCAR shows it, without its token.
type Shown struct {
	V         int    `json:"v"`
	UID       string `json:"uid" record:"id"`
	RequestID string `json:"request_id" record:"id"`
	// Epoch and Generation of its marks.
	Epoch      string `json:"epoch,omitempty"`
	Generation int64  `json:"generation"`
	// Sealed is an age envelope (base64) around the service's JSON; empty with Error.
	Sealed string `json:"sealed,omitempty"`
	// Error says why it cannot be shown.
	Error string `json:"error,omitempty"`
}
