package record

// CapacitySource is where the syncer has read what its cluster has free.
type CapacitySource string

// The sources: OSCAR's GET /system/status, and the nodes and pods of the Kubernetes
// below it.
const (
	CapacityFromOscar      CapacitySource = "oscar"
	CapacityFromKubernetes CapacitySource = "kubernetes"
)

// MaxCapacityNodes is how many nodes a Capacity lists: those that can give most.
const MaxCapacityNodes = 200

// Capacity is what a cluster has free for jobs, rounded down. The syncer writes it at
// the start of its session, and then when a node's has changed by a twentieth of what
// it can give: less at once, more after a pause. Only nodes that take pods count: ready, and none of interLink.
type Capacity struct {
	V      int            `json:"v"`
	Source CapacitySource `json:"source"`
	CPU    CapacityCPU    `json:"cpu"`
	Memory CapacityMemory `json:"memory"`
	// Nodes by what they can give, largest first; never nil.
	Nodes []CapacityNode `json:"nodes"`
	// Unlisted are the nodes beyond MaxCapacityNodes, together.
	Unlisted *CapacityRest `json:"unlisted,omitempty"`
	// Session is the create revision of the session key in which it was written: only
	// what was written in the present session is fresh.
	Session   int64 `json:"session"`
	ChangedAt Time  `json:"changed_at"`
	// LookEvery is how often the syncer looks at least, in seconds, for as long as its session
	// lives; 0 when it does not say. It says so in place of a write for each look.
	LookEvery int64 `json:"look_every,omitempty"`
	// FailingSince is since when its looks fail, and Message why: what it had free then is not
	// believed any more.
	FailingSince *Time  `json:"failing_since,omitempty"`
	Message      string `json:"message,omitempty"`
}

// CapacityCPU in millicores.
type CapacityCPU struct {
	TotalFree     int64 `json:"total_free"`
	MaxFreeOnNode int64 `json:"max_free_on_node"`
}

// CapacityMemory in bytes.
type CapacityMemory struct {
	TotalFree     int64 `json:"total_free_bytes"`
	MaxFreeOnNode int64 `json:"max_free_on_node_bytes"`
}

// CapacityNode is one node.
type CapacityNode struct {
	Name   string       `json:"name" record:"id"`
	CPU    NodeAmount   `json:"cpu"`
	Memory NodeMemory   `json:"memory"`
	GPU    NodeAmount   `json:"gpu"`
	HasGPU bool         `json:"has_gpu"`
	Status NodeStanding `json:"status"`
}

// NodeStanding says whether a node takes pods.
type NodeStanding string

// NodeReady is the standing of a node that takes pods.
const NodeReady NodeStanding = "Ready"

// CapacityRest are several nodes together.
type CapacityRest struct {
	Nodes  int64      `json:"nodes"`
	CPU    NodeAmount `json:"cpu"`
	Memory NodeMemory `json:"memory"`
	GPU    NodeAmount `json:"gpu"`
}

// NodeAmount is what a node has for pods, and what of it is free: millicores, or GPUs.
type NodeAmount struct {
	Allocatable int64 `json:"allocatable"`
	Free        int64 `json:"free"`
}

// NodeMemory is NodeAmount in bytes.
type NodeMemory struct {
	Allocatable int64 `json:"allocatable_bytes"`
	Free        int64 `json:"free_bytes"`
}

// CapacityKey is what a cluster has free.
func CapacityKey(cluster string) string { return ObservedPrefix(cluster) + "capacity" }
