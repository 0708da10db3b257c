package record

import (
	"crypto/sha256"
	"encoding/hex"
)

// JoinsPrefix covers the one-use tokens with which clusters join.
const JoinsPrefix = Root + "joins/"

// JoinKey is the record of a join token, by its JoinHash.
func JoinKey(hash string) string { return JoinsPrefix + hash }

// JoinHash names a join token without telling it: hexadecimal SHA-256. A token has
// 256 bits by chance, so that nothing finds it from its hash.
func JoinHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Join is a one-use token with which the syncer of a cluster joins. Its key ends with a lease,
// used or not: until then it says which cluster has used it.
type Join struct {
	V         int    `json:"v"`
	ClusterID string `json:"cluster_id"`
	// ClusterUID is the registration that it was made for.
	ClusterUID string `json:"cluster_uid"`
	// ReplaceKey says that another key and another Kubernetes than those that the
	// cluster has joined with may take their place.
	ReplaceKey bool `json:"replace_key,omitempty"`
	// By is the subject of the administrator who made it.
	By       string `json:"by"`
	IssuedAt Time   `json:"issued_at"`
	// ExpiresAt counts besides the lease, which an election of etcd prolongs.
	ExpiresAt Time `json:"expires_at"`
	// UsedBy is the fingerprint of the key that it was used with; empty before.
	UsedBy string `json:"used_by,omitempty"`
}

// Joined is the identity of a cluster: what its syncer has joined with.
type Joined struct {
	// Key is the fingerprint of the syncer's key.
	Key string `json:"key" record:"id"`
	// Recipient is the syncer's age recipient.
	Recipient string `json:"recipient"`
	// KubeSystemUID is that of its namespace kube-system; empty as long as it could
	// not be read.
	KubeSystemUID string `json:"kube_system_uid,omitempty"`
	// OscarID says which OSCAR it is; empty when that could not be said.
	OscarID string `json:"oscar_id,omitempty"`
	At      Time   `json:"at"`
	// ValidUntil is when its newest certificate ends, give or take an hour.
	ValidUntil Time `json:"valid_until"`
}
