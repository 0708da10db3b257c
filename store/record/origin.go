package record

// OriginStorage is the MinIO of a federation's origin, the coordinator's cluster, and
// how it is reached from elsewhere. It has no credentials: a worker's syncer gets its
// owner's from the origin's OSCAR.
type OriginStorage struct {
	ClusterID string `json:"cluster_id" record:"id"`
	// Endpoint is that of the origin's OSCAR, SSLVerify whether its certificate is
	// verified.
	Endpoint  string `json:"endpoint"`
	SSLVerify bool   `json:"ssl_verify"`
	// MinioEndpoint, MinioRegion and MinioVerify are those of its MinIO, as the origin's
	// syncer reported them when the spec was rendered. MinioEndpoint is never empty.
	MinioEndpoint string `json:"minio_endpoint"`
	MinioRegion   string `json:"minio_region"`
	MinioVerify   bool   `json:"minio_verify"`
}

// Inputs says whether a worker whose minio.default is its origin's can read and write
// there now: its owner's credentials are known, and the origin's MinIO answers. It is
// written when the answer changes.
type Inputs struct {
	Readable bool `json:"readable"`
	// Reason and Message say why not; empty for readable ones.
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// At is when the answer became this.
	At Time `json:"at"`
}
