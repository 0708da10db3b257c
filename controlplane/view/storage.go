package view

import (
	"net/url"
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/store/record"
)

// The workers of a user's federation use the MinIO of their origin, the coordinator's cluster,
// where their syncers can (record.OriginStorage). The workers of the administrator's
// federations do not: the origin's OSCAR would answer with MinIO's root keys, which never leave
// a cluster.

// MinioOf is the MinIO of a cluster as its syncer reports it. It has no endpoint when none is
// known, or none that can be reached.
func (v *View) MinioOf(cluster string) record.OriginStorage {
	out := record.OriginStorage{ClusterID: cluster}
	n := v.Nodes.m[cluster]
	if n == nil || n.Self.Rec == nil || !plausibleMinIO(n.Self.Rec) {
		return out
	}
	o := n.Self.Rec
	out.MinioEndpoint, out.MinioRegion = o.MinioEndpoint, o.MinioRegion
	// An older syncer does not report it: then its certificate is verified.
	out.MinioVerify = o.MinioVerify == nil || *o.MinioVerify
	return out
}

// plausibleMinIO says whether a syncer reports an address that an OSCAR can be sent.
func plausibleMinIO(o *record.ObservedCluster) bool {
	if len(o.MinioEndpoint) > oscar.MaxURLLength || len(o.MinioRegion) > maxRegion {
		return false
	}
	u, err := url.Parse(o.MinioEndpoint)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

// maxRegion in bytes; those of S3 have less than 20.
const maxRegion = 64

// OriginStorage is the storage that the workers of an origin are to use; nil when it is not
// known.
func (v *View) OriginStorage(o topology.Origin) *record.OriginStorage {
	out := v.MinioOf(o.ClusterID)
	if out.MinioEndpoint == "" || o.Endpoint == "" {
		return nil
	}
	out.Endpoint, out.SSLVerify = o.Endpoint, o.SSLVerify
	return &out
}

// StorageUsed is the MinIO that a replica's minio.default means, as far as it is known: that of
// its own cluster, or that of the origin when its syncer reports that it uses it.
func (v *View) StorageUsed(p MemberRef) record.OriginStorage {
	m := p.At()
	at := m.ClusterID
	if n := v.Nodes.m[at]; n != nil && !m.Coordinator {
		if o := n.Observed.m[m.ServiceName].Rec; o != nil && o.UID == m.UID && o.Inputs != nil {
			at = p.Rec.Coordinator().ClusterID
		}
	}
	return v.MinioOf(at)
}

// StorageOf says where the storage providers are that the inputs and outputs of a replica name: each once.
func (v *View) StorageOf(p MemberRef, s *oscar.Service) []Storage {
	var out []Storage
	for _, io := range slices.Concat(s.Input, s.Output) {
		if !slices.ContainsFunc(out, func(known Storage) bool { return known.Provider == io.Provider }) {
			out = append(out, v.storageAt(p, s, io.Provider))
		}
	}
	return out
}

// storageAt is where one of them is. A coordinator's OSCAR takes its own MinIO for minio.default whatever the definition
// says; a worker's takes the one that the definition gives.
func (v *View) storageAt(p MemberRef, s *oscar.Service, provider string) Storage {
	out := Storage{Provider: provider}
	given := oscar.StorageProviders{}
	if s.StorageProviders != nil {
		given = *s.StorageProviders
	}
	switch kind, id := oscar.ProviderRef(provider); kind {
	case oscar.ProviderMinIO:
		m := given.MinIO[id]
		if id == oscar.ProviderDefault && (p.At().Coordinator || m.Hidden() || m.Endpoint == "") {
			used := v.StorageUsed(p)
			out.ClusterID, out.Endpoint = used.ClusterID, used.MinioEndpoint
			break
		}
		out.Endpoint = m.Endpoint
	case oscar.ProviderS3:
		out.Endpoint = "https://s3.amazonaws.com"
		if region := given.S3[id].Region; region != "" {
			out.Endpoint = "https://s3." + region + ".amazonaws.com"
		}
	case oscar.ProviderOnedata:
		out.Endpoint = given.Onedata[id].OneproviderHost
	case oscar.ProviderWebDAV:
		out.Endpoint = given.WebDAV[id].Hostname
	case oscar.ProviderRucio:
		out.Endpoint = given.Rucio[id].Host
	}
	return out
}
