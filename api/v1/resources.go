package v1

// Bucket is OSCAR's description of a bucket of a cluster's MinIO, with the cluster that it is on.
// Its order is OSCAR's: clients match parts of the text.
type Bucket struct {
	Name         string            `json:"bucket_name"`
	Visibility   string            `json:"visibility"`
	AllowedUsers []string          `json:"allowed_users"`
	Owner        string            `json:"owner"`
	Metadata     map[string]string `json:"metadata"`
	Objects      []BucketObject    `json:"objects,omitempty"`
	Quota        *BucketQuota      `json:"storage_quota,omitempty"`
	Usage        *BucketUsage      `json:"storage_usage,omitempty"`
	Attribution  string            `json:"attribution,omitempty"`
	ClusterID    string            `json:"cluster_id"`
}

// BucketObject is what is in a bucket.
type BucketObject struct {
	Name         string `json:"object_name"`
	SizeBytes    int64  `json:"size_bytes"`
	Owner        string `json:"owner,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
}

// BucketQuota is how much a bucket may hold.
type BucketQuota struct {
	Max      string `json:"max,omitempty"`
	MaxBytes int64  `json:"max_bytes,omitempty"`
	Source   string `json:"source"`
}

// BucketUsage is how much a bucket holds.
type BucketUsage struct {
	Used      string `json:"used"`
	UsedBytes int64  `json:"used_bytes"`
	Objects   int64  `json:"objects,omitempty"`
}

// Volume is OSCAR's description of a managed volume, with the cluster that it is on.
type Volume struct {
	Name            string             `json:"name"`
	Namespace       string             `json:"namespace,omitempty"`
	Claim           string             `json:"pvc_name,omitempty"`
	Size            string             `json:"size,omitempty"`
	Owner           string             `json:"owner_user,omitempty"`
	Service         string             `json:"created_by_service,omitempty"`
	CreationMode    string             `json:"creation_mode,omitempty"`
	LifecyclePolicy string             `json:"lifecycle_policy,omitempty"`
	Attachments     []VolumeAttachment `json:"attachments,omitempty"`
	Status          VolumeStatus       `json:"status"`
	ClusterID       string             `json:"cluster_id"`
}

// VolumeAttachment is a service that mounts a volume.
type VolumeAttachment struct {
	Service   string `json:"service_name"`
	MountPath string `json:"mount_path"`
}

// VolumeStatus is how a volume stands.
type VolumeStatus struct {
	Phase       string `json:"phase,omitempty"`
	Message     string `json:"message,omitempty"`
	Attachments int    `json:"attachment_count,omitempty"`
}
