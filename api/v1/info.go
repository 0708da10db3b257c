package v1

// Info is the answer of GET /system/info: OSCAR's fields first, then ours.
type Info struct {
	// Version is the OSCAR Manager version whose API this is compatible with.
	Version           string `json:"version"`
	GitCommit         string `json:"git_commit"`
	Architecture      string `json:"architecture"`
	KubernetesVersion string `json:"kubernetes_version"`

	OscarfedVersion string `json:"oscarfed_version"`
	ControlPlane    string `json:"control_plane"`
	Clusters        int    `json:"clusters"`
	AliveClusters   int    `json:"alive_clusters"`
}
