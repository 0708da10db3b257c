package record

// Removal is the order to remove a cluster. It stands in the registration, so that it outlives the
// process that took it, until the registration goes.
type Removal struct {
	// RequestID is the request that ordered it; the changes that follow carry it.
	RequestID string `json:"request_id" record:"id"`
	// Orphan keeps the local services running, without our marks.
	Orphan bool `json:"orphan"`
	// Force does not wait for the cluster to acknowledge, and deletes the
	// federations whose coordinator is there.
	Force     bool `json:"force"`
	StartedAt Time `json:"started_at"`
}

// KeepRelease is the word of Desired.Keep, DataDelete that of Desired.Data, and JobsCancel that of
// Desired.Jobs.
const (
	KeepRelease = "release"
	DataDelete  = "delete"
	JobsCancel  = "cancel"
)
