package v1

// RelayProtocol is what a connection is upgraded to by GET /system/relay: HTTP/2
// without TLS of its own (RFC 9113, prior knowledge) with the parts exchanged, the syncer
// answers what the control plane asks.
const RelayProtocol = "oscarfed-relay-1"

// Headers of GET /system/relay and of its answer.
const (
	RelayClusterHeader = "Oscarfed-Cluster"
	RelayUIDHeader     = "Oscarfed-Cluster-Uid"
	// RelayProofHeader is the opened challenge.
	RelayProofHeader = "Oscarfed-Relay-Proof"
	// RelayConnectedHeader lists the instances that the syncer has streams to, with commas.
	RelayConnectedHeader = "Oscarfed-Relay-Connected"
	// RelayInstanceHeader names the instance of the control plane, in the answer.
	RelayInstanceHeader = "Oscarfed-Instance"
)

// RelayRefusedHeader is on what a syncer itself answers to a request on its stream: a
// word that says why the request did not reach its OSCAR. Without it the answer is
// OSCAR's.
const RelayRefusedHeader = "Oscarfed-Relay-Refused"

// How much passes on a stream at a time: invocations, and logs, under way, and how many of each wait
// at either end; and the bytes of one body, or answer, that nobody has read yet. Both ends count: a
// syncer is done with an answer before its caller has read it.
const (
	RelayRuns    = 128
	RelayLogs    = 16
	RelayWaiting = 56
	RelayBuffer  = 256 << 10
)

// Words of RelayRefusedHeader.
const (
	// RelayNotAllowed: the syncer passes nothing of this kind on.
	RelayNotAllowed = "not_allowed"
	// RelayNotOurs: no service of this name stands here as this life.
	RelayNotOurs = "not_ours"
	// RelayBusy: as much is under way as may be.
	RelayBusy = "busy"
	// RelayAway: the syncer cannot say what stands here, or OSCAR was not reached. Nothing
	// was sent to it.
	RelayAway = "away"
	// RelayBroken: OSCAR was asked and did not answer; what it does is not known.
	RelayBroken = "broken"
	// RelayTooLarge: the request's body is longer than may be passed on.
	RelayTooLarge = "too_large"
)

// RelayServiceTokenHeader carries, on the stream, the token of the life of a service that
// is to be invoked.
const RelayServiceTokenHeader = "Oscarfed-Service-Token"

// RelayAccountHeader says, on the stream, which account a request is made for: a word that
// tells accounts apart and names none of them. A syncer shares what it does at once by it.
const RelayAccountHeader = "Oscarfed-Account"

// Headers on the stream that say more of how a request takes its share.
const (
	// RelayFederationHeader is the uid of the federation: those of an account share what it gets.
	RelayFederationHeader = "Oscarfed-Federation"
	// RelayWeightsHeader has the weights of the account and of the federation, with a space.
	RelayWeightsHeader = "Oscarfed-Weights"
	// RelayWaitHeader is for how many seconds the request may wait until it can be answered.
	RelayWaitHeader = "Oscarfed-Wait"
)

// RelayUserTokenHeader carries, on the stream, the access token of a user who asks OSCAR for
// what is his.
const RelayUserTokenHeader = "Oscarfed-User-Token"

// Relay asks for a challenge: the body of POST /system/relay/challenge.
type Relay struct {
	ClusterID  string `json:"cluster_id"`
	ClusterUID string `json:"cluster_uid"`
	// Connected are the instances that this syncer has a stream to.
	Connected []string `json:"connected,omitempty"`
}

// RelayChallenge is what only the syncer of that cluster can open.
type RelayChallenge struct {
	// Instance that answered. When it is one of those that are connected, there is
	// no challenge.
	Instance string `json:"instance"`
	// Challenge is an age envelope for the key that secrets for the cluster are
	// sealed to; what is inside is the proof.
	Challenge string `json:"challenge,omitempty"`
	ExpiresAt *Time  `json:"expires_at,omitempty"`
	// Instances is how many of the control plane run; 0 when it is not known.
	Instances int `json:"instances,omitempty"`
}
