package view

import (
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store/record"
)

// Status of one replica: which generation it speaks of, and why.
type Status struct {
	Phase              record.Phase
	ObservedGeneration int64
	Reason             record.Reason
	Message            string
	LastTransitionTime time.Time
	// Inputs is nil unless the replica uses the storage of its origin.
	Inputs *record.Inputs
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
	// Inputs and Outputs are storage_provider:path of the service.
	Inputs, Outputs []string
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
	CreatedAt time.Time
	ChangedAt time.Time
	Members   []Replica
	// Leaving are removed members whose deletion waits for their clusters.
	Leaving []Replica
	// Edges are pairs of indexes into Members: who lists whom.
	Edges [][2]int
	// Failed is set for the kept result of a creation that failed.
	Failed *fault.FailedCreate
	// RefreshToken is nil for those who may not change the federation, and when it has
	// none.
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
