package record

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
)

// PartsPrefix covers the parts of all federations.
const PartsPrefix = Root + "parts/"

// PartsOfPrefix covers the parts of one federation.
func PartsOfPrefix(federationUID string) string { return PartsPrefix + federationUID + "/" }

// PartKey is one part of a federation's definitions.
func PartKey(federationUID, name string) string { return PartsOfPrefix(federationUID) + name }

// partName is the number of bytes of a part's name: who knows the name may read the part.
const partName = 32

// NewPartName makes the name of a part. It is random, and tells nothing of what is in it.
func NewPartName() string {
	name := make([]byte, partName)
	_, _ = rand.Read(name) // it never fails
	return hex.EncodeToString(name)
}

// IsPartName says whether text has the form of a part's name.
func IsPartName(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == partName && hex.EncodeToString(raw) == text
}

// Part is what several records of one federation share of a service: the specs of its
// replicas, and the history and the secrets of its generations. It never changes once it is
// written. It has a text, or secrets.
type Part struct {
	V int `json:"v"`
	// Owner is whose bytes it is counted for.
	Owner string `json:"owner,omitempty"`
	// Service is a service without secrets; in a later part, a merge patch (RFC 7386) on the
	// parts before it.
	Service json.RawMessage `json:"service,omitempty"`
	// Piece is a piece of such a text that is too large for one record. More says that the
	// next part goes on with it.
	Piece string `json:"piece,omitempty"`
	More  bool   `json:"more,omitempty"`
	// Sealed is an age envelope around a merge patch with the secrets, or around a piece of one
	// that is too large for an envelope, sealed to a key that is that of these parts alone.
	Sealed string `json:"sealed,omitempty"`
}

// SealedChanges is what an envelope beside parts holds.
type SealedChanges struct {
	// Key opens the parts with the secrets; empty when there are none.
	Key string `json:"key,omitempty"`
	// Changes is a merge patch on these secrets.
	Changes json.RawMessage `json:"changes"`
}
