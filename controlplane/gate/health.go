package gate

// Info describes an instance of the control plane.
type Info struct {
	ControlPlane string
	Clusters     int
	Alive        int
	Etcd         Space
	// UpgradeUnfinished says that the store is written so that the version before can come back.
	UpgradeUnfinished bool
}

// Health says whether requests can be served. Message says why not, or names a problem that
// does not stop them.
type Health struct {
	OK      bool
	Message string
}
