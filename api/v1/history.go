package v1

import "encoding/json"

// Generation is one definition of a federation, as it was submitted.
type Generation struct {
	Generation int64  `json:"generation"`
	By         string `json:"by"`
	RequestID  string `json:"request_id"`
	ChangedAt  Time   `json:"changed_at"`
	// Service is OSCAR's own form of a service, without secrets.
	Service json.RawMessage `json:"service"`
}

// RollbackTo names the generation to go back to.
type RollbackTo struct {
	To int64 `json:"to"`
}

// Paused says whether a federation's services are left alone.
type Paused struct {
	// Paused is required in a request: nothing said is no end of a pause.
	Paused *bool `json:"paused"`
}

// ClusterState is what the administrator wants of a cluster: active, cordoned or paused.
type ClusterState struct {
	State string `json:"state"`
	// Readmit, with the state active, ends a revocation.
	Readmit bool `json:"readmit,omitempty"`
}
