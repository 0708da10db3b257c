package view

import (
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store/record"
)

// Status of one replica: the generation that it is about, and the reason.
type Status struct {
	Phase              record.Phase
	ObservedGeneration int64
	Reason             record.Reason
	Message            string
	LastTransitionTime time.Time
	// Inputs is nil unless the replica uses the storage of its origin.
	Inputs *record.Inputs
	// RunState is how its exposed service was last seen; empty when nothing was ordered.
	RunState record.RunState
}

// Replica is one member of a federation with its status. Members of type
// endpoint have no status.
type Replica struct {
	Type        string
	ClusterID   string
	ServiceName string
	Priority    int
	URL         string
	SSLVerify   *bool
	Weight      *int
	UID         string
	Coordinator bool
	Status      *Status
	// Inputs and Outputs are storage_provider:path of the service, and Storage where their providers are.
	Inputs, Outputs []string
	Storage         []Storage
}

// Storage is where a storage provider is.
type Storage struct {
	// Provider is as inputs and outputs name it.
	Provider string
	// ClusterID is the cluster whose own MinIO it is; empty for none.
	ClusterID string
	// Endpoint is empty when it is not known.
	Endpoint string
}

// Federation is a federation with its computed phase and the status of every replica.
type Federation struct {
	UID        string
	Owner      string
	GroupID    string
	Topology   string
	Delegation string
	Deployment string
	Drift      string
	Generation int64
	// Revision of the federation's record: its ETag.
	Revision  int64
	Phase     record.Phase
	Paused    bool
	RunState  record.RunState
	CreatedAt time.Time
	ChangedAt time.Time
	Members   []Replica
	// Leaving are removed members whose deletion waits for their clusters.
	Leaving []Replica
	// Edges are pairs of indexes into Members: the first lists the second.
	Edges [][2]int
	// Failed is set for the kept result of a creation that failed.
	Failed *fault.FailedCreate
	// RefreshToken is nil when the federation has none, and for a caller who may not change it.
	RefreshToken *RefreshToken
}

// Replicas is a federation as one of its replicas sees it.
type Replicas struct {
	Federation
	// Self and Sees are indexes into Members.
	Self int
	Sees []int
	// StreamRevision is the store revision that the view was taken at, or later.
	StreamRevision int64
}

// WasReady shows a federation that is gone as it was when its creation was done.
func (f *Federation) WasReady() {
	if f.Deployment == oscar.DeploymentBestEffort {
		return // which members were ready then is not known
	}
	f.Phase = record.PhaseReady
	for _, m := range f.Members {
		if m.Status != nil {
			*m.Status = Status{Phase: record.PhaseReady, ObservedGeneration: f.Generation, Reason: record.ReasonApplied, LastTransitionTime: f.ChangedAt}
		}
	}
}

// FailedError is the error of a creation that failed, from its record.
func FailedError(f *record.Federation) *fault.Error {
	return &fault.Error{
		Code: fault.Code(f.Code), Message: f.Detail, Failed: failedCreate(f),
		RetryAfter: time.Duration(f.RetryAfter) * time.Second,
	}
}

// failedCreate is nil unless the creation failed.
func failedCreate(f *record.Federation) *fault.FailedCreate {
	if !f.Phase.Result() && f.Phase != record.PhaseRollingBack {
		return nil
	}
	out := &fault.FailedCreate{GroupID: f.GroupID, Phase: f.Phase}
	out.Replicas = []v1.FailedReplica{}
	if c := f.Coordinator(); c != nil {
		out.Service = c.ServiceName
	}
	worst := record.RollbackComplete
	for _, m := range f.Members {
		if !m.Replica() {
			continue
		}
		out.Replicas = append(out.Replicas, FailedReplica(m))
		switch {
		case m.Rollback == nil:
		case m.Rollback.State == record.RollbackFailed, m.Rollback.State == record.RollbackPending && worst != record.RollbackFailed:
			worst = m.Rollback.State
		}
	}
	if f.Phase == record.PhaseAborted {
		worst = record.RollbackNotNeeded
	}
	out.Rollback = string(worst)
	return out
}

// Sees lists cluster/service of the replicas that replica i lists.
func Sees(g *topology.Graph, i int) []string {
	var out []string
	for _, j := range g.Sees(i) {
		if n := g.Nodes[j]; n.Replica() {
			out = append(out, n.Member.ClusterID+"/"+n.Member.ServiceName)
		}
	}
	return out
}
