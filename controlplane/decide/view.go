package decide

// DeletionOrders are what a deletion orders of the clusters.
type DeletionOrders struct {
	// Data is delete when the buckets that our creates made shall go, Jobs cancel when
	// running jobs shall be ended.
	Data, Jobs string
	RequestID  string
}
