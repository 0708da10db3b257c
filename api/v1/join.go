package v1

// JoinRequest asks for a join token: the body of POST /system/clusters/{id}/join.
type JoinRequest struct {
	// ReplaceKey lets another key, and another Kubernetes, take the place of those
	// that the cluster has joined with.
	ReplaceKey bool `json:"replace_key,omitempty"`
}

// JoinToken is what one syncer joins with, once.
type JoinToken struct {
	ClusterID  string `json:"cluster_id"`
	ClusterUID string `json:"cluster_uid"`
	Token      string `json:"token"`
	ExpiresAt  Time   `json:"expires_at"`
}

// Join is the body of POST /system/join.
type Join struct {
	Token     string `json:"token"`
	ClusterID string `json:"cluster_id"`
	// CSR is a certificate request in PEM, signed with an ECDSA key on P-256.
	CSR string `json:"csr"`
	// Recipient is the syncer's age recipient.
	Recipient string `json:"recipient"`
	// KubeSystemUID is left out when Kubernetes cannot be reached.
	KubeSystemUID string `json:"kube_system_uid,omitempty"`
	// OscarID is left out when it cannot be said which OSCAR this is.
	OscarID string `json:"oscar_id,omitempty"`
}

// JoinChallenge is what the certificate request of a renewal has as its common name.
type JoinChallenge struct {
	Challenge string `json:"challenge"`
	ExpiresAt Time   `json:"expires_at"`
}

// JoinRenewal is the body of POST /system/join/renew.
type JoinRenewal struct {
	ClusterID  string `json:"cluster_id"`
	ClusterUID string `json:"cluster_uid"`
	// CSR is a certificate request in PEM, signed with the key that the cluster has
	// joined with, whose common name is a challenge.
	CSR           string `json:"csr"`
	KubeSystemUID string `json:"kube_system_uid,omitempty"`
}

// Enrolment is what a syncer needs to speak to etcd.
type Enrolment struct {
	ClusterID  string `json:"cluster_id"`
	ClusterUID string `json:"cluster_uid"`
	// Certificate is the client certificate in PEM.
	Certificate string `json:"certificate"`
	ExpiresAt   Time   `json:"expires_at"`
	// EtcdCA are the authorities of etcd's certificates in PEM; empty for the system's.
	EtcdCA        string   `json:"etcd_ca"`
	EtcdEndpoints []string `json:"etcd_endpoints"`
	// RemovedAt is there when the cluster was removed, and has something left to do.
	RemovedAt *Time `json:"removed_at,omitempty"`
}

// ClusterJoined is the identity that a cluster has joined with.
type ClusterJoined struct {
	// Key is the fingerprint of its syncer's key.
	Key           string `json:"key"`
	KubeSystemUID string `json:"kube_system_uid,omitempty"`
	At            Time   `json:"at"`
	// ValidUntil is when its newest certificate ends, give or take an hour.
	ValidUntil Time `json:"valid_until"`
}
