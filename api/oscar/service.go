package oscar

import "encoding/json"

// Extra holds the fields of an object that this project does not interpret, by
// the key that they came with. They are written back after the known ones, sorted.
type Extra map[string]json.RawMessage

// Service is one OSCAR service. Keys are OSCAR's. A scalar that is zero is not
// written, since OSCAR reads an absent one as the same; a nil slice or map is not
// written, an empty one is.
type Service struct {
	Name      string `json:"name"`
	ClusterID string `json:"cluster_id"`
	Image     string `json:"image"`
	// CPU, Memory and the next three are Kubernetes quantities.
	CPU                     string `json:"cpu"`
	Memory                  string `json:"memory"`
	TotalMemory             string `json:"total_memory"`
	TotalCPU                string `json:"total_cpu"`
	EphemeralStorageRequest string `json:"ephemeral_storage_request"`

	EnableGPU     bool        `json:"enable_gpu"`
	EnableSGX     bool        `json:"enable_sgx"`
	ImagePrefetch bool        `json:"image_prefetch"`
	Synchronous   Synchronous `json:"synchronous"`
	LogLevel      string      `json:"log_level"`
	Alpine        bool        `json:"alpine"`
	// Token is the service's own credential: 64 hexadecimal digits.
	Token       string `json:"token"`
	FileStageIn bool   `json:"file_stage_in"`
	// Script is the text of the user's script; in an FDL also the path of its file.
	Script           string   `json:"script,omitempty"`
	ImagePullSecrets []string `json:"image_pull_secrets,omitempty"`

	Federation  *Federation       `json:"federation,omitempty"`
	Expose      Expose            `json:"expose"`
	Environment Environment       `json:"environment"`
	Annotations map[string]string `json:"annotations"`
	Labels      map[string]string `json:"labels"`
	VO          string            `json:"vo"`
	Input       []IO              `json:"input"`
	Output      []IO              `json:"output"`

	StorageProviders *StorageProviders            `json:"storage_providers,omitempty"`
	Clusters         map[string]ClusterCredential `json:"clusters,omitempty"`

	// Owner and Namespace are filled by OSCAR.
	Owner             string   `json:"owner"`
	Namespace         string   `json:"namespace,omitempty"`
	InterlinkNodeName string   `json:"interlink_node_name"`
	Visibility        string   `json:"visibility"`
	AllowedUsers      []string `json:"allowed_users"`
	IsolationLevel    string   `json:"isolation_level"`
	// BucketList is filled by OSCAR: one bucket for each allowed user under isolation USER.
	BucketList []string `json:"bucket_list"`

	Mount        IO              `json:"mount"`
	Volume       *Volume         `json:"volume,omitempty"`
	VolumeStatus VolumeStatus    `json:"volume_status"`
	Deployment   json.RawMessage `json:"deployment,omitempty"`
	Kserve       *Kserve         `json:"kserve,omitempty"`

	// Secrets at the top level is where some clients put refresh_token.
	Secrets map[string]string `json:"secrets,omitempty"`

	Extra Extra `json:"-"`

	// full writes zero scalars too, as OSCAR's own answers do (WithDefaults).
	full bool
	// from remembers what of the federation came in v3's top-level form, so that
	// violations name the path that was submitted.
	from v3Origin
	// faults are the paths of type violations: Validate does not report them twice.
	faults []string
}

// Synchronous bounds the pods of a Knative service.
type Synchronous struct {
	MinScale int   `json:"min_scale"`
	MaxScale int   `json:"max_scale"`
	Extra    Extra `json:"-"`
}

// Expose publishes a service's own port.
type Expose struct {
	MinScale       int    `json:"min_scale"`
	MaxScale       int    `json:"max_scale"`
	APIPort        Ports  `json:"api_port,omitempty"`
	CPUThreshold   int    `json:"cpu_threshold"`
	RewriteTarget  bool   `json:"rewrite_target"`
	NodePort       Ports  `json:"nodePort,omitempty"`
	DefaultCommand bool   `json:"default_command"`
	SetAuth        bool   `json:"set_auth"`
	AuthType       string `json:"auth_type,omitempty"`
	HealthPath     string `json:"health_path"`
	ProbeMode      string `json:"probe_mode,omitempty"`
	Extra          Extra  `json:"-"`
}

// Exposed says whether OSCAR runs the service as a Deployment, which can be stopped.
func (s *Service) Exposed() bool { return len(s.Expose.APIPort) > 0 && s.Expose.APIPort[0] != 0 }

// Ports are a number in OSCAR v3 and an array in v4: both are read, an array is
// written, and nothing when there is none or only 0.
type Ports []int

// Environment of the user's container. Values of Secrets are secret.
type Environment struct {
	Variables map[string]string `json:"variables"`
	Secrets   map[string]string `json:"secrets"`
	Extra     Extra             `json:"-"`
}

// IO is an input, an output or a mount.
type IO struct {
	// Provider is <type> or <type>.<id>; the id is default when absent.
	Provider string   `json:"storage_provider"`
	Path     string   `json:"path"`
	Suffix   []string `json:"suffix,omitempty"`
	Prefix   []string `json:"prefix,omitempty"`
	Options  string   `json:"options,omitempty"`
	Extra    Extra    `json:"-"`
}

// Volume is a persistent volume of the service.
type Volume struct {
	Name            string `json:"name,omitempty"`
	Size            string `json:"size,omitempty"`
	MountPath       string `json:"mount_path,omitempty"`
	LifecyclePolicy string `json:"lifecycle_policy,omitempty"`
	Extra           Extra  `json:"-"`
}

// DropState clears what OSCAR fills in of a service's state. Clients read it and send it back.
func (s *Service) DropState() {
	s.BucketList, s.VolumeStatus, s.Deployment = nil, VolumeStatus{}, nil
}

// VolumeStatus is filled by OSCAR.
type VolumeStatus struct {
	Enabled bool   `json:"enabled"`
	Name    string `json:"name,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Error   string `json:"error,omitempty"`
	Extra   Extra  `json:"-"`
}

// Kserve is a KServe workload; what OSCAR does not require is in Extra.
type Kserve struct {
	Type       string           `json:"type,omitempty"`
	StorageURI string           `json:"storage_uri,omitempty"`
	Inference  *KserveInference `json:"inference,omitempty"`
	Extra      Extra            `json:"-"`
}

// KserveInference is the model of a KServe workload.
type KserveInference struct {
	ModelFormat string `json:"model_format,omitempty"`
	Extra       Extra  `json:"-"`
}
