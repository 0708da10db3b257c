package v1

// DeploymentSummary is how a service stands, in OSCAR's form: the deployment of a service
// that was asked for with include=deployment.
type DeploymentSummary struct {
	// State is pending, ready, degraded, failed or unavailable.
	State string `json:"state"`
	// Reason says what is not in order; empty when all is.
	Reason             string `json:"reason,omitempty"`
	LastTransitionTime *Time  `json:"last_transition_time,omitempty"`
	// ActiveInstances are the replicas that are ready, AffectedInstances the others.
	ActiveInstances   int    `json:"active_instances"`
	AffectedInstances int    `json:"affected_instances"`
	ResourceKind      string `json:"resource_kind"`
}

// Deployment is the answer of GET /system/services/{service}/deployment.
type Deployment struct {
	ServiceName string `json:"service_name"`
	DeploymentSummary
}

// DeploymentLogs is the answer of GET /system/services/{service}/deployment/logs.
type DeploymentLogs struct {
	ServiceName string `json:"service_name"`
	Available   bool   `json:"available"`
	Message     string `json:"message,omitempty"`
	// Entries is never null.
	Entries []DeploymentLogEntry `json:"entries"`
}

// DeploymentLogEntry is a line of a log.
type DeploymentLogEntry struct {
	Timestamp string `json:"timestamp,omitempty"`
	Message   string `json:"message"`
}
