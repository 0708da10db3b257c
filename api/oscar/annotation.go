package oscar

import "strings"

// Annotations that OSCAR gives a meaning to.
const (
	// AnnotationWorker with value "true" makes OSCAR keep the service token that
	// it is sent, instead of making one.
	AnnotationWorker = "oscar.grycap/federation-worker"
	// AnnotationOriginCluster is the cluster_id of the coordinator.
	AnnotationOriginCluster = "oscar.grycap/origin-cluster"
	// AnnotationOriginService is the service name of the coordinator.
	AnnotationOriginService = "oscar.grycap/origin-service"
)

// Annotations of this project: the readable part of a replica's mark.
const (
	AnnotationUID          = "oscarfed/uid"
	AnnotationGeneration   = "oscarfed/generation"
	AnnotationControlPlane = "oscarfed/control-plane"
	// AnnotationFederation is the uid of the federation.
	AnnotationFederation = "oscarfed/federation"
	// AnnotationSettings are the settings of the federation, on its coordinator.
	AnnotationSettings = "oscarfed/settings"
	// AnnotationEpoch is the epoch of the generation; absent in the first one.
	AnnotationEpoch = "oscarfed/epoch"
	// AnnotationPrefix covers every annotation of this project.
	AnnotationPrefix = "oscarfed/"
)

// SetsLabel says whether OSCAR gives the label its own value, whatever it is sent: a POST all of
// these, a PUT all but the owner's name. A queue of another form is the user's own.
func SetsLabel(label, value string) bool {
	switch label {
	case "oscar.grycap/user-service", "oscar_service", "applicationId", "queue", "owner_name":
		return true
	case "kueue.x-k8s.io/queue-name":
		return strings.HasPrefix(value, "oscar-lq-")
	}
	return false
}

// Words of OSCAR.
const (
	MemberOSCAR    = "oscar"
	MemberEndpoint = "endpoint"

	TopologyNone = "none"
	TopologyStar = "star"
	TopologyTree = "tree"
	TopologyMesh = "mesh"

	DelegationStatic    = "static"
	DelegationRandom    = "random"
	DelegationLoadBased = "load-based"
	DelegationTopsis    = "topsis"

	DeploymentTransactional = "transactional"
	DeploymentBestEffort    = "best-effort"

	DriftEnforce = "enforce"
	DriftReport  = "report"

	VisibilityPrivate    = "private"
	VisibilityPublic     = "public"
	VisibilityRestricted = "restricted"

	IsolationService = "SERVICE"
	IsolationUser    = "USER"

	// VolumeRetain is the policy of a volume that outlives the service whose creation made it.
	// Without a policy OSCAR deletes it with the service.
	VolumeRetain = "retain"

	// OwnerAdmin is the owner of what the administrator creates.
	OwnerAdmin = "cluster_admin"
	// RefreshTokenKey is where a service's secrets hold the user's refresh token.
	RefreshTokenKey = "refresh_token"
	// RefreshTokenRequired is what OSCAR says when it is missing.
	RefreshTokenRequired = "refresh_token secret is required for federated services"
	// HiddenCredential is what OSCAR answers in place of its own MinIO's keys.
	HiddenCredential = "hidden"
	// DefaultClusterKey in an FDL means the default cluster.
	DefaultClusterKey = "default-cluster"
)

// Types and the default id of storage providers.
const (
	ProviderMinIO   = "minio"
	ProviderS3      = "s3"
	ProviderOnedata = "onedata"
	ProviderWebDAV  = "webdav"
	ProviderRucio   = "rucio"
	ProviderDefault = "default"
)
