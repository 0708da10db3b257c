package v1

// SystemStatus is the answer of GET /system/status, in OSCAR's form: the sum over the
// clusters, and each of them in a field of our own. What OSCAR calls cores is
// millicores.
type SystemStatus struct {
	Cluster  StatusCluster   `json:"cluster"`
	OSCAR    StatusManager   `json:"oscar"`
	MinIO    StatusMinIO     `json:"minio"`
	Clusters []ClusterStatus `json:"clusters"`
}

// StatusCluster is the sum over the clusters.
type StatusCluster struct {
	Nodes   int64         `json:"nodes_count"`
	Metrics StatusMetrics `json:"metrics"`
	// List holds the first nodes, named <cluster>/<node>; never nil.
	List []StatusNode `json:"nodes"`
}

// StatusMetrics is what is free. Free and schedulable are the same here.
type StatusMetrics struct {
	CPU    StatusCPU    `json:"cpu"`
	Memory StatusMemory `json:"memory"`
	GPU    StatusGPU    `json:"gpu"`
}

// StatusCPU in millicores.
type StatusCPU struct {
	Free              int64 `json:"total_free_cores"`
	MaxFree           int64 `json:"max_free_on_node_cores"`
	Schedulable       int64 `json:"total_schedulable_cores"`
	SchedulableOnNode int64 `json:"total_schedulable_on_node_cores"`
}

// StatusMemory in bytes.
type StatusMemory struct {
	Free              int64 `json:"total_free_bytes"`
	MaxFree           int64 `json:"max_free_on_node_bytes"`
	Schedulable       int64 `json:"total_schedulable_bytes"`
	SchedulableOnNode int64 `json:"max_schedulable_on_node_bytes"`
}

// StatusGPU counts all, taken ones too.
type StatusGPU struct {
	Total int64 `json:"total_gpu"`
}

// StatusNode is one node of a cluster.
type StatusNode struct {
	Name        string            `json:"name"`
	CPU         StatusNodeCPU     `json:"cpu"`
	Memory      StatusNodeMemory  `json:"memory"`
	GPU         int64             `json:"gpu"`
	IsInterlink bool              `json:"is_interlink"`
	Status      string            `json:"status"`
	Conditions  []StatusCondition `json:"conditions"`
}

// StatusNodeCPU in millicores. Zeros are left out, as OSCAR does.
type StatusNodeCPU struct {
	Capacity int64 `json:"capacity_cores,omitempty"`
	Request  int64 `json:"request_cores,omitempty"`
}

// StatusNodeMemory in bytes. Zeros are left out, as OSCAR does.
type StatusNodeMemory struct {
	Capacity int64 `json:"capacity_bytes,omitempty"`
	Request  int64 `json:"request_bytes,omitempty"`
}

// StatusCondition is one condition of a node.
type StatusCondition struct {
	Type   string `json:"type"`
	Status bool   `json:"status"`
}

// StatusManager stands for what an OSCAR Manager says of its own deployment.
type StatusManager struct {
	DeploymentName string           `json:"deployment_name"`
	Ready          bool             `json:"ready"`
	Deployment     StatusDeployment `json:"deployment"`
	Jobs           int              `json:"jobs_count"`
	Pods           StatusPods       `json:"pods"`
	OIDC           StatusOIDC       `json:"oidc"`
}

// StatusDeployment is empty: a control plane need not be one in Kubernetes. Created is null, as OSCAR writes no time:
// its clients read a time there.
type StatusDeployment struct {
	Available int               `json:"available_replicas"`
	Ready     int               `json:"ready_replicas"`
	Replicas  int               `json:"replicas"`
	Created   *Time             `json:"creation_timestamp"`
	Strategy  string            `json:"strategy"`
	Labels    map[string]string `json:"labels"`
}

// StatusPods is empty: pods are the clusters' own.
type StatusPods struct {
	Total  int            `json:"total"`
	States map[string]int `json:"states"`
}

// StatusOIDC is empty.
type StatusOIDC struct {
	Enabled bool     `json:"enabled"`
	Issuers []string `json:"issuers"`
	Groups  []string `json:"groups"`
}

// StatusMinIO is empty: buckets are the clusters' own.
type StatusMinIO struct {
	Buckets int `json:"buckets_count"`
	Objects int `json:"total_objects"`
}

// ClusterStatus is what one cluster has for jobs. Without Fresh the numbers are 0, and it
// gets none.
type ClusterStatus struct {
	ClusterID string `json:"cluster_id"`
	State     string `json:"state"`
	Alive     bool   `json:"alive"`
	Fresh     bool   `json:"fresh"`
	Source    string `json:"source,omitempty"`
	ChangedAt *Time  `json:"changed_at,omitempty"`
	// LookEvery is how often its syncer looks at least, in seconds: as long as it is alive and
	// says nothing else, it has looked within that time.
	LookEvery int64 `json:"look_every_seconds,omitempty"`
	// FailingSince is since when it looks in vain, and Message why.
	FailingSince *Time        `json:"failing_since,omitempty"`
	Message      string       `json:"message,omitempty"`
	Nodes        int64        `json:"nodes_count"`
	CPU          RoomCPU      `json:"cpu"`
	Memory       RoomMemory   `json:"memory"`
	GPU          RoomOfDevice `json:"gpu"`
}

// RoomCPU in millicores. Promised is for jobs that are assigned and not seen running.
type RoomCPU struct {
	Allocatable int64 `json:"allocatable"`
	Free        int64 `json:"free"`
	MaxFree     int64 `json:"max_free_on_node"`
	Promised    int64 `json:"promised"`
}

// RoomMemory is RoomCPU in bytes.
type RoomMemory struct {
	Allocatable int64 `json:"allocatable_bytes"`
	Free        int64 `json:"free_bytes"`
	MaxFree     int64 `json:"max_free_on_node_bytes"`
	Promised    int64 `json:"promised_bytes"`
}

// RoomOfDevice counts whole ones.
type RoomOfDevice struct {
	Allocatable int64 `json:"allocatable"`
	Free        int64 `json:"free"`
}
