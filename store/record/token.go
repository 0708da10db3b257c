package record

// Tokens carries the access token of a federation's owner to one cluster, whose
// syncer makes the service with it: so it is his on that OSCAR. It is written before
// the records that need it, by a creation or change of the owner's, and is of no use
// after it has expired. His refresh token goes in a Hold.
type Tokens struct {
	V int `json:"v"`
	// Generation of the federation that the owner was making, or had, when he gave it.
	Generation int64 `json:"generation"`
	// Expires is when the token does, by its issuer's clock.
	Expires Time `json:"expires"`
	// LifeS is how many seconds it had when it was written: its reader counts them from when it
	// first saw the record. Older control planes do not say.
	LifeS int64 `json:"life_s,omitempty"`
	// Access is an age envelope (base64) around the token, for the cluster alone.
	Access string `json:"access"`
}
