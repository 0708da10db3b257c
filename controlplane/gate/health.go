package gate

// Info is what an instance of the control plane says of itself.
type Info struct {
	ControlPlane string
	Clusters     int
	Alive        int
	Etcd         Space
}

// Health says whether requests can be served. Message says why not, or what is not
// in order although they can.
type Health struct {
	OK      bool
	Message string
}
