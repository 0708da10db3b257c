package wire

// Service is one function definition. Type and field names matter: they appear in the texts of decoding errors.
// Keys that are not here are dropped, as OSCAR drops them.
type Service struct {
	Name                    string             `json:"name"`
	ClusterID               string             `json:"cluster_id"`
	Memory                  string             `json:"memory"`
	CPU                     string             `json:"cpu"`
	TotalMemory             string             `json:"total_memory"`
	TotalCPU                string             `json:"total_cpu"`
	EphemeralStorageRequest string             `json:"ephemeral_storage_request"`
	EnableGPU               bool               `json:"enable_gpu"`
	EnableSGX               bool               `json:"enable_sgx"`
	ImagePrefetch           bool               `json:"image_prefetch"`
	Synchronous             Synchronous        `json:"synchronous"`
	Federation              *Federation        `json:"federation,omitempty"`
	LogLevel                string             `json:"log_level"`
	Image                   string             `json:"image"`
	Alpine                  bool               `json:"alpine"`
	Token                   string             `json:"token"`
	FileStageIn             bool               `json:"file_stage_in"`
	Input                   []StorageIOConfig  `json:"input"`
	Output                  []StorageIOConfig  `json:"output"`
	Script                  string             `json:"script,omitempty"`
	ImagePullSecrets        []string           `json:"image_pull_secrets,omitempty"`
	Expose                  Expose             `json:"expose"`
	Environment             Environment        `json:"environment"`
	Annotations             map[string]string  `json:"annotations"`
	VO                      string             `json:"vo"`
	Labels                  map[string]string  `json:"labels"`
	StorageProviders        *StorageProviders  `json:"storage_providers,omitempty"`
	Clusters                map[string]Cluster `json:"clusters,omitempty"`
	Owner                   string             `json:"owner"`
	Namespace               string             `json:"namespace,omitempty"`
	InterLinkNodeName       string             `json:"interlink_node_name"`
	Visibility              string             `json:"visibility"`
	AllowedUsers            []string           `json:"allowed_users"`
	IsolationLevel          string             `json:"isolation_level"`
	BucketList              []string           `json:"bucket_list"`
	Mount                   StorageIOConfig    `json:"mount"`
	Volume                  *Volume            `json:"volume,omitempty"`
	VolumeStatus            VolumeStatus       `json:"volume_status"`
	Deployment              *DeploymentSummary `json:"deployment,omitempty"`
}

// Synchronous holds the bounds of a serverless backend, which the simulator does not have.
type Synchronous struct {
	MinScale int `json:"min_scale"`
	MaxScale int `json:"max_scale"`
}

// Environment holds variables and secrets. Secret values are stored apart and shown as "".
type Environment struct {
	Vars    map[string]string `json:"variables"`
	Secrets map[string]string `json:"secrets"`
}

// Federation is OSCAR's own record of a group of services.
type Federation struct {
	GroupID              string    `json:"group_id"`
	Topology             string    `json:"topology"`
	Delegation           string    `json:"delegation,omitempty"`
	ReschedulerThreshold int       `json:"rescheduler_threshold,omitempty"`
	Members              []Replica `json:"members,omitempty"`
}

// Replica is one member of a federation.
type Replica struct {
	Type        string            `json:"type"`
	ClusterID   string            `json:"cluster_id"`
	ServiceName string            `json:"service_name"`
	URL         string            `json:"url"`
	SSLVerify   bool              `json:"ssl_verify"`
	Priority    uint              `json:"priority"`
	Headers     map[string]string `json:"headers"`
}

// StorageIOConfig is one input, output or mount. Path is "bucket/folder" once normalised.
type StorageIOConfig struct {
	Provider string   `json:"storage_provider"`
	Path     string   `json:"path"`
	Suffix   []string `json:"suffix,omitempty"`
	Prefix   []string `json:"prefix,omitempty"`
	Options  string   `json:"options,omitempty"`
}

// Expose configures an exposed service.
type Expose struct {
	MinScale       int32   `json:"min_scale"`
	MaxScale       int32   `json:"max_scale"`
	APIPort        []int   `json:"api_port,omitempty"`
	CPUThreshold   int32   `json:"cpu_threshold"`
	RewriteTarget  bool    `json:"rewrite_target"`
	NodePort       []int32 `json:"nodePort,omitempty"`
	DefaultCommand bool    `json:"default_command"`
	SetAuth        bool    `json:"set_auth"`
	AuthType       string  `json:"auth_type,omitempty"`
	HealthPath     string  `json:"health_path"`
	ProbeMode      string  `json:"probe_mode,omitempty"`
}

// StorageProviders holds credentials by provider type and identifier.
type StorageProviders struct {
	S3      map[string]*S3Provider      `json:"s3,omitempty"`
	MinIO   map[string]*MinIOProvider   `json:"minio,omitempty"`
	Onedata map[string]*OnedataProvider `json:"onedata,omitempty"`
	WebDav  map[string]*WebDavProvider  `json:"webdav,omitempty"`
	Rucio   map[string]*Rucio           `json:"rucio,omitempty"`
}

// S3Provider is an account at an S3 store.
type S3Provider struct {
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Region    string `json:"region"`
}

// MinIOProvider is an account at a MinIO.
type MinIOProvider struct {
	Endpoint  string `json:"endpoint"`
	Verify    bool   `json:"verify"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Region    string `json:"region"`
}

// OnedataProvider is an account at a Onedata provider.
type OnedataProvider struct {
	OneproviderHost string `json:"oneprovider_host"`
	Token           string `json:"token"`
	Space           string `json:"space"`
}

// WebDavProvider is an account at a WebDAV server.
type WebDavProvider struct {
	Hostname string `json:"hostname"`
	Login    string `json:"login"`
	Password string `json:"password"`
}

// Rucio is an account at a Rucio server.
type Rucio struct {
	Host          string `json:"host"`
	Account       string `json:"account"`
	Rse           string `json:"rse"`
	RefreshToken  string `json:"refresh_token"`
	AuthHost      string `json:"auth_host"`
	OidcAudience  string `json:"oidc_audience"`
	TokenEndpoint string `json:"token_endpoint"`
}

// Cluster is another cluster of a federation. OSCAR shows its credentials in the clear.
type Cluster struct {
	Endpoint     string `json:"endpoint"`
	AuthUser     string `json:"auth_user"`
	AuthPassword string `json:"auth_password"`
	SSLVerify    bool   `json:"ssl_verify"`
}

// Volume asks for a managed volume: with a size for a new one, which is named as the service unless it has a name, and
// without one for a volume that is there.
type Volume struct {
	Name            string `json:"name,omitempty"`
	Size            string `json:"size"`
	MountPath       string `json:"mount_path"`
	LifecyclePolicy string `json:"lifecycle_policy,omitempty"`
}

// VolumeStatus is the state of the managed volume of a service.
type VolumeStatus struct {
	Enabled bool   `json:"enabled"`
	Name    string `json:"name,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Error   string `json:"error,omitempty"`
}

// DeploymentSummary is shown in a service when the reader asks for include=deployment.
type DeploymentSummary struct {
	State             string `json:"state"`
	Reason            string `json:"reason,omitempty"`
	ActiveInstances   int    `json:"active_instances"`
	AffectedInstances int    `json:"affected_instances"`
	ResourceKind      string `json:"resource_kind,omitempty"`
}

// FederationResponse is the answer of GET /system/federation/{service}. Members is null when there are none.
type FederationResponse struct {
	Topology string    `json:"topology"`
	Members  []Replica `json:"members"`
}
