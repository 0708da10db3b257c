package record

// Capacity is what a cluster has free, by node: CPU in millicores, memory in bytes. It
// counts while the session lives in which it was written.
type Capacity struct {
	V int `json:"v"`
	// Source is oscar or kubernetes.
	Source string         `json:"source"`
	CPU    CapacityCPU    `json:"cpu"`
	Memory CapacityMemory `json:"memory"`
	Nodes  []CapacityNode `json:"nodes"`
}

// CapacityCPU is the free CPU of all nodes and of the one with most.
type CapacityCPU struct {
	TotalFree     int64 `json:"total_free"`
	MaxFreeOnNode int64 `json:"max_free_on_node"`
}

// CapacityMemory is the free memory of all nodes and of the one with most.
type CapacityMemory struct {
	TotalFree     int64 `json:"total_free_bytes"`
	MaxFreeOnNode int64 `json:"max_free_on_node_bytes"`
}

// CapacityNode is one node.
type CapacityNode struct {
	Name   string       `json:"name"`
	CPU    NodeAmount   `json:"cpu"`
	Memory NodeMemory   `json:"memory"`
	GPU    NodeAmount   `json:"gpu"`
	HasGPU bool         `json:"has_gpu"`
	Status NodeStanding `json:"status"`
}

// NodeAmount is what a node has for pods, and what of it is free.
type NodeAmount struct {
	Allocatable int64 `json:"allocatable"`
	Free        int64 `json:"free"`
}

// NodeMemory is NodeAmount in bytes.
type NodeMemory struct {
	Allocatable int64 `json:"allocatable_bytes"`
	Free        int64 `json:"free_bytes"`
}

// NodeStanding says whether a node takes pods.
type NodeStanding string

// NodeReady is the standing of a node that takes pods.
const NodeReady NodeStanding = "Ready"

// CapacityKey is what a cluster has free.
func CapacityKey(cluster string) string { return ObservedPrefix(cluster) + "capacity" }
