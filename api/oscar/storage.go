package oscar

import "strings"

// StorageProviders by type and id.
type StorageProviders struct {
	S3      map[string]S3Provider      `json:"s3,omitempty"`
	MinIO   map[string]MinIOProvider   `json:"minio,omitempty"`
	Onedata map[string]OnedataProvider `json:"onedata,omitempty"`
	WebDAV  map[string]WebDAVProvider  `json:"webdav,omitempty"`
	Rucio   map[string]RucioProvider   `json:"rucio,omitempty"`
	Extra   Extra                      `json:"-"`
}

// S3Provider is an Amazon S3 account.
type S3Provider struct {
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Region    string `json:"region"`
	Extra     Extra  `json:"-"`
}

// MinIOProvider is a MinIO server.
type MinIOProvider struct {
	Endpoint  string `json:"endpoint"`
	Verify    bool   `json:"verify"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Region    string `json:"region"`
	Extra     Extra  `json:"-"`
}

// OnedataProvider is a space of a Oneprovider.
type OnedataProvider struct {
	OneproviderHost string `json:"oneprovider_host"`
	Token           string `json:"token"`
	Space           string `json:"space"`
	Extra           Extra  `json:"-"`
}

// WebDAVProvider is a WebDAV server, as dCache.
type WebDAVProvider struct {
	Hostname string `json:"hostname"`
	Login    string `json:"login"`
	Password string `json:"password"`
	Extra    Extra  `json:"-"`
}

// RucioProvider is a Rucio server.
type RucioProvider struct {
	Host          string `json:"host"`
	Account       string `json:"account"`
	RSE           string `json:"rse"`
	RefreshToken  string `json:"refresh_token"`
	AuthHost      string `json:"auth_host"`
	OIDCAudience  string `json:"oidc_audience"`
	TokenEndpoint string `json:"token_endpoint"`
	Extra         Extra  `json:"-"`
}

// ClusterCredential is how OSCAR itself reaches another cluster. The control
// plane ignores user and password: it knows its clusters by registration.
type ClusterCredential struct {
	Endpoint     string `json:"endpoint"`
	AuthUser     string `json:"auth_user"`
	AuthPassword string `json:"auth_password"`
	SSLVerify    bool   `json:"ssl_verify"`
	Extra        Extra  `json:"-"`
}

// ProviderRef takes storage_provider apart as OSCAR does: the type in lower
// case, the id default when there is none.
func ProviderRef(storageProvider string) (providerType, id string) {
	head, tail, ok := strings.Cut(strings.TrimSpace(storageProvider), ".")
	if !ok {
		return strings.ToLower(head), ProviderDefault
	}
	return strings.ToLower(head), tail
}

// Defined says whether a provider of that type and id is given. minio.default is
// every cluster's own and needs no definition.
func (p *StorageProviders) Defined(providerType, id string) bool {
	if providerType == ProviderMinIO && id == ProviderDefault {
		return true
	}
	if p == nil {
		return false
	}
	var ok bool
	switch providerType {
	case ProviderMinIO:
		_, ok = p.MinIO[id]
	case ProviderS3:
		_, ok = p.S3[id]
	case ProviderOnedata:
		_, ok = p.Onedata[id]
	case ProviderWebDAV:
		_, ok = p.WebDAV[id]
	case ProviderRucio:
		_, ok = p.Rucio[id]
	}
	return ok
}

func lower(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// Hidden says whether OSCAR itself, or an answer of ours, filled in a provider.
func (v MinIOProvider) Hidden() bool {
	return v.AccessKey == HiddenCredential && v.SecretKey == HiddenCredential
}

// FillDefaultMinIO says where minio.default is when the definition leaves that to the
// cluster, as OSCAR's own answers do. Nothing is filled in without an endpoint.
func (s *Service) FillDefaultMinIO(endpoint, region string, verify bool) {
	given, ok := s.defaultMinIO()
	if ok && !given.Hidden() || endpoint == "" {
		return
	}
	s.setDefaultMinIO(MinIOProvider{
		Endpoint: endpoint, Region: region, Verify: verify, AccessKey: HiddenCredential, SecretKey: HiddenCredential,
	})
}

// RestoreDefaultMinIO undoes what an answer filled in: a client that reads a service and
// sends it back does not mean to say where minio.default is, nor that its keys are hidden.
// old has its secrets.
func (s *Service) RestoreDefaultMinIO(old *Service) {
	given, ok := s.defaultMinIO()
	if !ok || !given.Hidden() {
		return
	}
	before, had := old.defaultMinIO()
	switch {
	case !had:
		if delete(s.StorageProviders.MinIO, ProviderDefault); len(s.StorageProviders.MinIO) == 0 {
			s.StorageProviders.MinIO = nil
		}
	case before.Hidden():
		s.setDefaultMinIO(before)
	default: // old says itself where it is
		given.AccessKey, given.SecretKey = before.AccessKey, before.SecretKey
		s.setDefaultMinIO(given)
	}
}

// SameDefaultMinIOKeys says whether two services give the same keys for a minio.default of
// their own. WithDefaults hides them, so that nothing else that is compared tells.
func SameDefaultMinIOKeys(a, b *Service) bool {
	keys := func(s *Service) [2]string {
		m, _ := s.defaultMinIO()
		if m.Hidden() {
			return [2]string{}
		}
		return [2]string{m.AccessKey, m.SecretKey}
	}
	return keys(a) == keys(b)
}

func (s *Service) defaultMinIO() (MinIOProvider, bool) {
	if s.StorageProviders == nil {
		return MinIOProvider{}, false
	}
	m, ok := s.StorageProviders.MinIO[ProviderDefault]
	return m, ok
}

func (s *Service) setDefaultMinIO(m MinIOProvider) {
	if s.StorageProviders == nil {
		s.StorageProviders = &StorageProviders{}
	}
	if s.StorageProviders.MinIO == nil {
		s.StorageProviders.MinIO = map[string]MinIOProvider{}
	}
	s.StorageProviders.MinIO[ProviderDefault] = m
}
