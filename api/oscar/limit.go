package oscar

// Limits of what is accepted. They are checked before anything is expanded.
const (
	// MaxServiceBytes is the size of a submitted service or FDL. A service must
	// fit into one ConfigMap at OSCAR and one record at the store.
	MaxServiceBytes = 1 << 20
	// MaxScriptBytes is the size of the user's script, in bytes.
	MaxScriptBytes = 512 << 10
	// MaxEventBytes is the size of a job's event, in bytes: OSCAR puts it into an environment
	// variable of a pod, and Linux limits its length.
	MaxEventBytes = 96 << 10
	// MaxAnnotationsBytes is the sum of keys and values of the annotations.
	// Kubernetes refuses 256 KiB; OSCAR and we add some of our own.
	MaxAnnotationsBytes = 240 << 10
	// MaxDepth is how deep objects and arrays may be nested.
	MaxDepth = 100
	// MaxReplicas is how many replicas a federation may have, the coordinator
	// included: all of them change in one transaction of the store.
	MaxReplicas = 120
	// MaxBatch is how many services one request may create all or none: beside
	// more comparisons a transaction has no room for all their records.
	MaxBatch = 90
	// MaxEndpoints is how many members of type endpoint a federation may have.
	MaxEndpoints = 120
	// MaxIO is how many inputs, and how many outputs, a service may have.
	MaxIO = 100
	// MaxAllowedUsers is how many users a service may name.
	MaxAllowedUsers = 1000
	// MaxAllowedUsersBytes is the sum of their names, and MaxUserBytes the longest: the
	// federation's record holds them (OpenID Connect Core 2: a subject has 255 characters).
	MaxAllowedUsersBytes = 128 << 10
	MaxUserBytes         = 255
	// MaxPrivateBuckets is how many buckets isolation USER may make: reports list them.
	MaxPrivateBuckets = 2000
	// MaxNameLength is the longest service name that OSCAR accepts.
	MaxNameLength = 39
	// MinNameLength is the shortest bucket name that MinIO accepts; a bucket may
	// be named as its service.
	MinNameLength = 3
	// MaxIDLength is the longest cluster_id and group_id.
	MaxIDLength = 63
	// MaxURLLength is the longest url of a member or a provider.
	MaxURLLength = 2048
	// maxValues bounds the memory that a small but dense input can take.
	maxValues = 50_000
	// maxViolations bounds an answer; how many more there are is said in the last one.
	maxViolations = 100
	// maxViolationText bounds a path in it, and a message, in bytes.
	maxViolationText = 2000
)
