package v1

// The kinds of what GET /system/watch tells.
const (
	EventFederation = "federation"
	EventService    = "service"
	EventCluster    = "cluster"
	EventJob        = "job"
	EventHappened   = "event"
)

// EventKinds are all kinds.
func EventKinds() []string { return append(DefaultKinds(), EventJob, EventHappened) }

// DefaultKinds are those that are told when none is named.
func DefaultKinds() []string { return []string{EventFederation, EventService, EventCluster} }

// Event tells that something that the caller may see is new or different, or is not seen any more.
type Event struct {
	// Revision is the store revision that it was seen at.
	Revision int64  `json:"revision"`
	Kind     string `json:"kind"`
	// Name is the uid of a federation, cluster/service of a service, or the id of a cluster, a job or
	// an event.
	Name string `json:"name"`
	// Deleted says that it is gone, does not match any more, or may not be seen any more. Else one
	// of the following is set, by Kind.
	Deleted    bool           `json:"deleted,omitempty"`
	Federation *Federation    `json:"federation,omitempty"`
	Service    *ServiceStatus `json:"service,omitempty"`
	Cluster    *Cluster       `json:"cluster,omitempty"`
	Job        *Job           `json:"job,omitempty"`
	Event      *SystemEvent   `json:"event,omitempty"`
}

// ServiceStatus is how one replica stands, without its definition.
type ServiceStatus struct {
	// Federation is the uid of its federation.
	Federation  string `json:"federation"`
	GroupID     string `json:"group_id"`
	Owner       string `json:"owner"`
	ClusterID   string `json:"cluster_id"`
	ServiceName string `json:"service_name"`
	Coordinator bool   `json:"coordinator"`
	// Generation is the present one; the status has the one that it is about.
	Generation int64  `json:"generation"`
	Status     Status `json:"status"`
}

// ServiceStatus is how one of its replicas stands; m has a status.
func (f *Federation) ServiceStatus(m Replica) ServiceStatus {
	return ServiceStatus{
		Federation: f.UID, GroupID: f.GroupID, Owner: f.Owner, ClusterID: m.ClusterID, ServiceName: m.ServiceName,
		Coordinator: f.Coordinator.ClusterID == m.ClusterID && f.Coordinator.ServiceName == m.ServiceName,
		Generation:  f.Generation, Status: *m.Status,
	}
}

// Bookmark says that everything up to a revision was told.
type Bookmark struct {
	Revision int64  `json:"revision"`
	Epoch    string `json:"epoch"`
}
