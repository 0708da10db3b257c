package topology

import "github.com/oscarfed/oscarfed/api/oscar"

// SharesStorage says whether the workers of a service are to read and write the
// minio.default of the coordinator's cluster instead of their own: an input or an output
// is there, and the definition does not say itself where minio.default is. A mount of it
// keeps it local: OSCAR mounts it with the keys of the cluster that the pod is on.
func SharesStorage(s *oscar.Service) bool {
	if p := s.StorageProviders; p != nil {
		if given, ok := p.MinIO[oscar.ProviderDefault]; ok && !hidden(given) {
			return false
		}
	}
	if s.Mount.Provider != "" && isDefault(s.Mount) {
		return false
	}
	for _, out := range s.Output {
		if isDefault(out) {
			return true
		}
	}
	return ReadsDefault(s)
}

// ReadsDefault says whether an input of a service is in minio.default: its events name
// objects there.
func ReadsDefault(s *oscar.Service) bool {
	for _, in := range s.Input {
		if isDefault(in) {
			return true
		}
	}
	return false
}

func isDefault(io oscar.IO) bool {
	provider, id := oscar.ProviderRef(io.Provider)
	return provider == oscar.ProviderMinIO && id == oscar.ProviderDefault
}

// hidden says whether OSCAR itself answered a provider.
func hidden(m oscar.MinIOProvider) bool {
	return m.AccessKey == oscar.HiddenCredential && m.SecretKey == oscar.HiddenCredential
}
