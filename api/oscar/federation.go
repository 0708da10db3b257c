package oscar

// Federation says how a service's replicas belong together.
type Federation struct {
	// GroupID defaults to the service's name.
	GroupID string `json:"group_id"`
	// Topology is none, star, mesh, or tree, the older word for star.
	Topology string `json:"topology"`
	// Delegation is static, random, load-based or topsis.
	Delegation string `json:"delegation,omitempty"`
	// ReschedulerThreshold in seconds: how long a job waits before it may move; 0 is the cluster's own.
	ReschedulerThreshold int      `json:"rescheduler_threshold,omitempty"`
	Members              []Member `json:"members,omitempty"`
	// Deployment is transactional or best-effort.
	Deployment string `json:"deployment,omitempty"`
	// Drift is enforce or report.
	Drift string `json:"drift,omitempty"`
	// Weights of the delegation policy, by the policy's own keys; none is negative.
	Weights map[string]float64 `json:"weights,omitempty"`
	Extra   Extra              `json:"-"`
}

// Member is one entry of a federation: a service on another cluster (type
// oscar), which is a replica, or a url that takes jobs (type endpoint).
type Member struct {
	Type        string `json:"type"`
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
	// URL of an endpoint.
	URL string `json:"url,omitempty"`
	// SSLVerify of an endpoint; nil means true.
	SSLVerify *bool `json:"ssl_verify,omitempty"`
	// Priority: 0 is best; from 101 on no job is handed to it.
	Priority int `json:"priority"`
	// Weight in the policy random; nil means equal.
	Weight *int `json:"weight,omitempty"`
	// Headers are sent with delegated jobs. Their values are secret.
	Headers map[string]string `json:"headers,omitempty"`
	Extra   Extra             `json:"-"`
}

// MemberKey is what makes two members the same one: priority, weight and
// headers do not count, the url does for an endpoint.
type MemberKey struct{ Type, ClusterID, ServiceName, URL string }

// Key of the member. The type is in lower case, and oscar when absent.
func (m Member) Key() MemberKey {
	key := MemberKey{Type: m.Kind(), ClusterID: m.ClusterID, ServiceName: m.ServiceName}
	if key.Type == MemberEndpoint {
		key.URL = m.URL
	}
	return key
}

// Kind is the type in lower case, oscar when absent: OSCAR compares it in any case.
func (m Member) Kind() string {
	if m.Type == "" {
		return MemberOSCAR
	}
	return lower(m.Type)
}

// Replica says whether the member is a service that is deployed.
func (m Member) Replica() bool { return m.Kind() == MemberOSCAR }

// String is how the member is named to people: cluster/service, or the url.
func (k MemberKey) String() string {
	if k.Type == MemberEndpoint && k.URL != "" {
		return k.URL
	}
	return k.ClusterID + "/" + k.ServiceName
}
