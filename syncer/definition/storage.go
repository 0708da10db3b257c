package definition

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/origin"
)

// Storage is the storage that a worker's jobs use instead of their own cluster's: the MinIO
// of the federation's origin. The worker's OSCAR is told where that is, and that the
// origin's OSCAR, which it asks for keys, is at an address of ours (package keyserver). A nil
// place is the cluster's own storage.
type Storage struct {
	record.OriginStorage
	// local is the address of ours.
	local string
}

// StorageFor is pure: the place of a spec that names an origin, on a cluster whose OSCAR
// reaches us at local and has its own MinIO at own, empty for not known. Where both MinIOs
// are called alike, OSCAR cannot tell them apart and uses its own.
func StorageFor(o *record.OriginStorage, local, own string) *Storage {
	if o == nil || local == "" || o.ClusterID == "" || o.MinioEndpoint == "" || origin.SameEndpoint(o.MinioEndpoint, own) {
		return nil
	}
	return &Storage{OriginStorage: *o, local: local}
}

// patch is what the definition gets, as an RFC 7386 merge patch. The creation of a worker makes and
// touches no bucket, as the control plane asks for it (topology mesh). On its own cluster's storage
// it makes those of the definition, as a coordinator's does.
func (p *Storage) patch() ([]byte, error) {
	if p == nil {
		return json.Marshal(map[string]any{"federation": map[string]any{"topology": oscar.TopologyNone}})
	}
	return json.Marshal(map[string]any{
		"storage_providers": map[string]any{"minio": map[string]any{"default": map[string]any{
			"endpoint": p.MinioEndpoint, "region": p.MinioRegion, "verify": p.MinioVerify,
		}}},
		"clusters": map[string]any{p.ClusterID: map[string]any{"endpoint": p.local, "ssl_verify": true}},
	})
}

// Mark tells two places apart in a report; empty for the cluster's own storage.
func (p *Storage) Mark() string {
	if p == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{
		p.ClusterID, p.MinioEndpoint, p.MinioRegion, strconv.FormatBool(p.MinioVerify), p.local}, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// HasStorage says whether a service, as OSCAR shows it, has the storage of the definition.
func (d *Definition) HasStorage(shown map[string]any) bool {
	if d.origin == nil {
		return true // OSCAR was never told anything else
	}
	clusters, _ := shown["clusters"].(map[string]any)
	there, _ := clusters[d.origin.ClusterID].(map[string]any)
	if d.Storage == nil {
		asked, _ := d.Compare["clusters"].(map[string]any)
		other, _ := asked[d.origin.ClusterID].(map[string]any)
		return text(there["endpoint"]) == text(other["endpoint"])
	}
	providers, _ := shown["storage_providers"].(map[string]any)
	minio, _ := providers["minio"].(map[string]any)
	provider, _ := minio["default"].(map[string]any)
	return text(there["endpoint"]) == d.Storage.local && origin.SameEndpoint(text(provider["endpoint"]), d.Storage.MinioEndpoint) &&
		text(provider["region"]) == d.Storage.MinioRegion && provider["verify"] == d.Storage.MinioVerify
}
