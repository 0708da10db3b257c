package v1

// Members is the answer of GET /system/federation/{service}, in OSCAR's own form.
type Members struct {
	// Topology is none, star or mesh.
	Topology string `json:"topology"`
	// Members are those that the service lists; null when it lists none, never [].
	Members []Member `json:"members"`
}

// Member is one entry of Members. OSCAR writes all of its keys, given or not.
type Member struct {
	Type        string `json:"type"`
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
	URL         string `json:"url"`
	SSLVerify   bool   `json:"ssl_verify"`
	Priority    int    `json:"priority"`
	// Headers are null: their values are secret and never shown.
	Headers map[string]string `json:"headers"`
}
