package v1

import "encoding/json"

// What a definition would do. A service is created, changed or left as it is; a replica is
// created, updated, removed or left as it is.
const (
	PlanNone   = "none"
	PlanCreate = "create"
	PlanChange = "change"
	PlanUpdate = "update"
	PlanRemove = "remove"
)

// Plan says what a definition would do if it was submitted now: the answer of
// POST /system/plans. Nothing of it is written.
type Plan struct {
	// Action is create, change or none.
	Action      string  `json:"action"`
	Coordinator Address `json:"coordinator"`
	GroupID     string  `json:"group_id"`
	Owner       string  `json:"owner"`
	// UID, Generation and Revision of the federation that is there; "" and 0 when it
	// is created.
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
	Revision   int64  `json:"revision"`
	// NextGeneration is the one that would be written.
	NextGeneration int64 `json:"next_generation"`
	// ClustersRevision is the revision at which the set of clusters was read.
	ClustersRevision int64 `json:"clusters_revision"`
	// Digest names exactly what would be written. A request with it in Oscarfed-Plan
	// writes that, or nothing.
	Digest     string `json:"digest"`
	Deployment string `json:"deployment"`
	// Fields and Secrets are what differs in the definition.
	Fields   []PlanField  `json:"fields"`
	Secrets  []PlanSecret `json:"secrets"`
	Topology PlanTopology `json:"topology"`
	// Replicas in the order of the members; removed ones last.
	Replicas []PlanReplica `json:"replicas"`
	Warnings []PlanWarning `json:"warnings"`
}

// PlanField is one field that differs; a value that is not there is left out.
// Values of more than 200 bytes stand as {"bytes":n,"lines":n,"sha256":"<hex>"}.
type PlanField struct {
	// Path is the JSON path; "..." alone says that more fields differ than are listed.
	Path   string          `json:"path"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// PlanSecret says what becomes of a secret, never what it is.
type PlanSecret struct {
	Path string `json:"path"`
	// Change is added, changed, removed or unchanged.
	Change string `json:"change"`
}

// PlanTopology is which member lists which: pairs of names, the first lists the second.
type PlanTopology struct {
	// Before is empty when the federation is created.
	Before       string      `json:"before"`
	After        string      `json:"after"`
	EdgesAdded   [][2]string `json:"edges_added"`
	EdgesRemoved [][2]string `json:"edges_removed"`
}

// PlanReplica is what would be written to one cluster, and why.
type PlanReplica struct {
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
	// Action is create, update, remove or none.
	Action string `json:"action"`
	// Votes says that the cluster is asked before anything is made.
	Votes bool `json:"votes"`
	// Vote is what it would answer now; nil where it was not asked.
	Vote *PlanVote `json:"vote,omitempty"`
	// DelayS is the length of the cluster's write queue in seconds.
	DelayS  int64    `json:"delay_s"`
	Reasons []string `json:"reasons"`
	// Fields and Secrets are what differs in what its OSCAR is sent.
	Fields  []PlanField  `json:"fields,omitempty"`
	Secrets []PlanSecret `json:"secrets,omitempty"`
	// BucketsLeft are buckets of an earlier life of the service that it attaches to.
	BucketsLeft []string `json:"buckets_left,omitempty"`
	// Spec is sha256:<hex> of the service that its OSCAR is sent, without secrets; the
	// uid of a replica that is created is "new" in it.
	Spec string `json:"spec,omitempty"`
}

// PlanVote is what a cluster would vote now. It binds nobody: what the cluster votes counts
// when something is to be made.
type PlanVote struct {
	// Answer is VoteYes, VoteNo or VoteUnknown.
	Answer string `json:"answer"`
	// Reason and Message say why not, or why it is not known.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// DelayS is how many seconds the cluster's earlier writes would take.
	DelayS int64 `json:"delay_s"`
}

// PlanWarning is something that does not stop a plan, but may what follows.
type PlanWarning struct {
	ClusterID   string `json:"cluster_id,omitempty"`
	ServiceName string `json:"service_name,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Message     string `json:"message"`
}
