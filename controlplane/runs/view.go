package runs

// Storage is where a cluster keeps its data.
type Storage struct{ Endpoint, Region string }
