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

	// Etcd and UpgradeUnfinished are told to the administrator alone. An upgrade is unfinished
	// until oscarfed finish-upgrade.
	Etcd              *EtcdSpace `json:"etcd,omitempty"`
	UpgradeUnfinished bool       `json:"upgrade_unfinished,omitempty"`
}

// EtcdSpace is how much space the store has; sizes in bytes, of the etcd member that
// is nearest to its quota.
type EtcdSpace struct {
	// Space is unknown, ok, short (creates and changes are refused) or full (every
	// write is refused).
	Space      string `json:"space"`
	SizeBytes  int64  `json:"size_bytes"`
	InUseBytes int64  `json:"in_use_bytes"`
	// QuotaBytes is negative when there is none.
	QuotaBytes int64 `json:"quota_bytes"`
	// Advice is what to do; empty when nothing is.
	Advice string `json:"advice"`
}
