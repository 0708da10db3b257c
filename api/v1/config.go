package v1

// Config is the answer of GET /system/config, in OSCAR's form.
type Config struct {
	Config        ManagerConfig `json:"config"`
	MinIOProvider MinIOProvider `json:"minio_provider"`
	// AllowedImageRepositories is empty: each OSCAR refuses what it does not allow.
	AllowedImageRepositories []string `json:"allowed_image_repositories"`
}

// ManagerConfig is what an OSCAR Manager says of its cluster. There is no one
// Kubernetes behind a federation, so that most of it is empty.
type ManagerConfig struct {
	Name                     string   `json:"name"`
	Namespace                string   `json:"namespace"`
	ServicesNamespace        string   `json:"services_namespace"`
	ControllerServiceAccount string   `json:"controller_service_account"`
	GPUAvailable             bool     `json:"gpu_available"`
	InterLinkAvailable       bool     `json:"interLink_available"` //nolint:tagliatelle // OSCAR's own key
	YunikornEnable           bool     `json:"yunikorn_enable"`
	KueueEnable              bool     `json:"kueue_enable"`
	VolumeEnable             bool     `json:"volume_enable"`
	OIDCGroups               []string `json:"oidc_groups"`
	MinIOQuotaEnabled        bool     `json:"minio_quota_enabled"`
}

// MinIOProvider is where the data of a cluster is, with a user's own keys; they are empty
// for the administrator, and where the cluster could not be asked.
type MinIOProvider struct {
	Endpoint  string `json:"endpoint"`
	Verify    bool   `json:"verify"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Region    string `json:"region"`
}
