package record

// Member is one node of a federation's graph. A member of type oscar is a
// replica and has a uid; one of type endpoint has a url and no replica.
type Member struct {
	Type        string `json:"type"`
	ClusterID   string `json:"cluster_id" record:"id"`
	ServiceName string `json:"service_name" record:"id"`
	Priority    int    `json:"priority"`
	URL         string `json:"url,omitempty" record:"id"`
	SSLVerify   *bool  `json:"ssl_verify,omitempty"`
	Weight      *int   `json:"weight,omitempty"`
	UID         string `json:"uid,omitempty" record:"id"`
	Coordinator bool   `json:"coordinator,omitempty"`
	// Cause and Rollback are set when a creation failed.
	Cause    *Failure  `json:"cause,omitempty"`
	Rollback *Rollback `json:"rollback,omitempty"`
}

// Replica says whether the member is a service that is deployed.
func (m Member) Replica() bool { return m.UID != "" }

// Operations that both sides speak of. A syncer reports others, too.
const (
	OperationVote   = "vote"
	OperationCreate = "create"
	OperationDelete = "delete"
)

// Failure is why a replica could not be made.
type Failure struct {
	Reason    Reason `json:"reason"`
	Operation string `json:"operation"`
	// Status is what OSCAR answered; 0 when it did not.
	Status  int    `json:"status,omitempty"`
	Message string `json:"message"`
}

// Rollback is what became of one replica of a failed creation.
type Rollback struct {
	State   RollbackState `json:"state"`
	Message string        `json:"message"`
}

// Federation is the graph of one federation and the decision that it stands at.
// Every transaction that touches a desired service record compares and writes
// the federation it belongs to.
type Federation struct {
	V          int    `json:"v"`
	UID        string `json:"uid" record:"id"`
	Owner      string `json:"owner"`
	GroupID    string `json:"group_id"`
	Generation int64  `json:"generation"`
	// Kept are the generations before the present one whose definitions are kept, newest first; nil when
	// they follow each other. See Older.
	Kept  []int64 `json:"kept,omitempty"`
	Phase Phase   `json:"phase"`
	// RequestID is the request whose transaction wrote the present generation.
	RequestID string `json:"request_id"`
	// By is the subject who sent it.
	By string `json:"by,omitempty"`
	// Topology is the word that the user gave: none, star, tree or mesh.
	Topology   string   `json:"topology" words:"none,star,tree,mesh"`
	Delegation string   `json:"delegation" words:"static,random,load-based,topsis"`
	Deployment string   `json:"deployment" words:"transactional,best-effort"`
	Drift      string   `json:"drift" words:"enforce,report"`
	Paused     bool     `json:"paused"`
	RunState   RunState `json:"run_state,omitempty" words:"started,stopped"`
	Members    []Member `json:"members"`
	CreatedAt  Time     `json:"created_at"`
	ChangedAt  Time     `json:"changed_at"`

	// ReschedulerThreshold in seconds; 0 means the cluster's own.
	ReschedulerThreshold int `json:"rescheduler_threshold,omitempty"`
	// Visibility and AllowedUsers say which users may read it, as OSCAR does.
	Visibility   string   `json:"visibility,omitempty"`
	AllowedUsers []string `json:"allowed_users,omitempty"`
	// Prefetch says that images are pulled before a create answers.
	Prefetch bool `json:"prefetch,omitempty"`
	// TokenRotation counts how often the tokens of its services for the control plane were
	// changed; 0 also lets the tokens of their lives in.
	TokenRotation int64 `json:"token_rotation,omitempty"`
	// Deadline ends the phase preparing or applying. A clock only starts an abort.
	Deadline *Time `json:"deadline,omitempty"`
	// Request is the hash of the idempotency record that waits for the outcome.
	Request string `json:"request,omitempty"`
	// Batch is the uid of the first of the federations that one request creates, all of them or
	// none; empty for a federation that is created alone.
	Batch string `json:"batch,omitempty"`
	// Former are the uids of federations that ended when their only replica became a member of
	// this one: their jobs follow it, and their refresh tokens are not revoked when it has one.
	Former []string `json:"former,omitempty"`
	// SecretsLost says that a restore has lost values of its secrets: the definition has empty ones in their place. Its
	// desired records are paused until a change gives them, or leaves them out.
	SecretsLost bool `json:"secrets_lost,omitempty"`
	// Detail is one sentence about why a creation failed.
	Detail string `json:"detail,omitempty"`
	// Code is the error code that a failed creation is answered with.
	Code string `json:"code,omitempty"`
	// RetryAfter in seconds goes with the code unavailable.
	RetryAfter int `json:"retry_after,omitempty"`

	// Parts name the parts of the present generation.
	Parts []string `json:"parts,omitempty"`
	// Change waits for the votes of the members that it adds.
	Change *Change `json:"change,omitempty"`
	// Leaving are removed members whose tombstones are not acknowledged yet.
	Leaving []Member `json:"leaving,omitempty"`
	// Refused tells why the last change was not made, until the next one.
	Refused *Refused `json:"refused,omitempty"`

	// Epoch in which Generation was written.
	Epoch string `json:"epoch,omitempty"`
	// Asked is the later epoch in which the vote of a creation was begun anew.
	Asked string `json:"asked,omitempty"`
}

// Change is the next generation of a federation, which becomes the present one
// when every added member has voted yes.
type Change struct {
	RequestID string `json:"request_id" record:"id"`
	// By is the subject who sent the request.
	By           string   `json:"by,omitempty"`
	Topology     string   `json:"topology" words:"none,star,tree,mesh"`
	Delegation   string   `json:"delegation" words:"static,random,load-based,topsis"`
	Drift        string   `json:"drift" words:"enforce,report"`
	Visibility   string   `json:"visibility,omitempty"`
	AllowedUsers []string `json:"allowed_users,omitempty"`
	// ReschedulerThreshold in seconds, as in Federation.
	ReschedulerThreshold int  `json:"rescheduler_threshold,omitempty"`
	Prefetch             bool `json:"prefetch,omitempty"`
	// Unexposed says that the next definition has no port: then no RunState stands any more.
	Unexposed bool     `json:"unexposed,omitempty"`
	Members   []Member `json:"members"`
	// Request is the hash of the idempotency record that waits for the outcome.
	Request string `json:"request,omitempty"`
	// Specs names the rendered services of the members that stay, by uid.
	Specs map[string]string `json:"specs"`
	// Parts name those of the next generation.
	Parts []string `json:"parts,omitempty"`
	// ProposedAt and Deadline are by one clock: what counts is how far they are apart.
	ProposedAt Time `json:"proposed_at,omitzero"`
	Deadline   Time `json:"deadline"`
	// Epoch in which it was proposed.
	Epoch string `json:"epoch,omitempty"`
}

// Refused is a change that was not made.
type Refused struct {
	RequestID string   `json:"request_id" record:"id"`
	Code      string   `json:"code"`
	Detail    string   `json:"detail"`
	Members   []Member `json:"members"`
}

// Secrets are those of a submitted service.
type Secrets struct {
	V int `json:"v"`
	// Owner is whose bytes it is counted for.
	Owner      string `json:"owner,omitempty"`
	Generation int64  `json:"generation"`
	Sealed     string `json:"sealed"`
	// Parts name the parts whose secrets the envelope changes: it holds a SealedChanges then.
	Parts []string `json:"parts,omitempty"`
}

// Older lists the generations before the present one whose definitions may be kept, newest first, most of them at most.
// A generation can be any number above the one before.
func (f *Federation) Older(most int) []int64 {
	if f.Kept != nil {
		return f.Kept[:min(most, len(f.Kept))]
	}
	var out []int64
	for g := f.Generation - 1; g > 0 && len(out) < most; g-- {
		out = append(out, g)
	}
	return out
}

// Halted says whether syncers make and change none of its services: it is paused, or the values of its secrets are lost,
// and would be emptied.
func (f *Federation) Halted() bool { return f.Paused || f.SecretsLost }

// Coordinator is the member that the service was submitted for.
func (f *Federation) Coordinator() *Member {
	for i := range f.Members {
		if f.Members[i].Coordinator {
			return &f.Members[i]
		}
	}
	return nil
}

// Name maps owner and group_id to a federation.
type Name struct {
	V   int    `json:"v"`
	UID string `json:"uid" record:"id"`
}
