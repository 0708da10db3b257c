package topology

import (
	"slices"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// SharesStorage says whether the workers of a service are to read and write the
// minio.default of the coordinator's cluster instead of their own: an input or an output
// is there, and the definition does not say itself where minio.default is. A mount of it
// keeps it local: OSCAR mounts it with the keys of the cluster that the pod is on.
func SharesStorage(s *oscar.Service) bool {
	if p := s.StorageProviders; p != nil {
		if given, ok := p.MinIO[oscar.ProviderDefault]; ok && !given.Hidden() {
			return false
		}
	}
	if s.Mount.Provider != "" && isDefault(s.Mount) {
		return false
	}
	return slices.ContainsFunc(s.Output, isDefault) || ReadsDefault(s)
}

// ReadsDefault says whether an input of a service is in minio.default: its events name
// objects there.
func ReadsDefault(s *oscar.Service) bool { return slices.ContainsFunc(s.Input, isDefault) }

func isDefault(io oscar.IO) bool {
	provider, id := oscar.ProviderRef(io.Provider)
	return provider == oscar.ProviderMinIO && id == oscar.ProviderDefault
}
