package v1

import "encoding/json"

// RelayVotePath is where the control plane asks on a stream whether a cluster would take a service
// (POST), with its name after it. The body is a RelayQuestion, and the answer a
// RelayVote. A user's access token is in RelayUserTokenHeader. Nothing is written for it, and
// nothing is promised. A syncer that does not know the path refuses it as RelayNotAllowed.
const RelayVotePath = "/votes/"

// MaxRelayQuestion bounds a RelayQuestion in bytes, and MaxRelayVote its answer.
const (
	MaxRelayQuestion = 1 << 20
	MaxRelayVote     = 16 << 10
)

// RelayQuestion is a service that a cluster may be given.
type RelayQuestion struct {
	// Owner is the subject of its owner. Where it is a user, the token is his.
	Owner string `json:"owner"`
	// Service is the definition without secrets and without its script.
	Service json.RawMessage `json:"service"`
	// Left names the buckets of earlier lives that it may attach to, and LeftBy the services
	// that may have made those.
	Left   []string `json:"left,omitempty"`
	LeftBy []string `json:"left_by,omitempty"`
	// SecretLeft says that an earlier life has left the Secret of its name.
	SecretLeft bool `json:"secret_left,omitempty"`
}

// RelayVote is what the cluster would vote now.
type RelayVote struct {
	// Answer is VoteYes or VoteNo.
	Answer string `json:"answer"`
	// Reason and Message say why not.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// DelayS is how many seconds the writes before this one will take.
	DelayS int64 `json:"delay_s"`
}

// What a cluster answers; VoteUnknown is said of one that has not answered.
const (
	VoteYes     = "yes"
	VoteNo      = "no"
	VoteUnknown = "unknown"
)
