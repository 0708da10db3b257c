package wire

import (
	"errors"
	"maps"
	"strings"
)

const (
	// AdminOwner is the owner of what is made with Basic credentials.
	AdminOwner = "cluster_admin"
	// DefaultProvider is the identifier of the cluster's own MinIO.
	DefaultProvider = "default"

	// WorkerAnnotation set to exactly "true" keeps the token that came with a POST.
	WorkerAnnotation = "oscar.grycap/federation-worker"
	// OriginClusterAnnotation says which cluster a worker comes from.
	OriginClusterAnnotation = "oscar.grycap/origin-cluster"
	// OriginServiceAnnotation says which service it is a worker of.
	OriginServiceAnnotation = "oscar.grycap/origin-service"

	// ServiceLabel holds the service's name on all that belongs to it.
	ServiceLabel = "oscar_service"
)

// Provider splits "type.id" into a lower-case type and an identifier, which is "default" when it is not given.
func Provider(ref string) (kind, id string) {
	kind, id, found := strings.Cut(strings.TrimSpace(ref), ".")
	if !found {
		id = DefaultProvider
	}
	return strings.ToLower(kind), id
}

// Bucket splits a path into its bucket and the folder in it ("" when there is none).
func Bucket(path string) (bucket, folder string) {
	bucket, folder, _ = strings.Cut(strings.Trim(path, " /"), "/")
	return bucket, folder
}

// HasMembers reports whether the federation lists anybody.
func (s *Service) HasMembers() bool { return s.Federation != nil && len(s.Federation.Members) > 0 }

// MeshWorker reports whether the service has the shape for which OSCAR makes no bucket on POST and sends nothing on
// PUT. The token rule (KeepsToken) is stricter about the annotation than this one.
func (s *Service) MeshWorker() bool {
	return s.Federation != nil &&
		strings.EqualFold(strings.TrimSpace(s.Annotations[WorkerAnnotation]), "true") &&
		strings.EqualFold(strings.TrimSpace(s.Federation.Topology), "mesh")
}

// KeepsToken reports whether a token in the body is kept: only for an annotation of exactly "true".
func (s *Service) KeepsToken() bool { return s.Annotations[WorkerAnnotation] == "true" }

// NormalisePaths trims the paths of inputs and outputs and puts the service's name in front where no bucket is
// given. The default output bucket of a worker is its origin's.
func (s *Service) NormalisePaths() error {
	for i := range s.Input {
		io := &s.Input[i]
		path := strings.Trim(io.Path, " /")
		if path == "" {
			return errors.New("input path cannot be empty")
		}
		if kind, _ := Provider(io.Provider); bucketed(kind) && !strings.Contains(path, "/") {
			path = s.Name + "/" + path
		}
		io.Path = path
	}
	origin := strings.TrimSpace(s.Annotations[OriginServiceAnnotation])
	if strings.TrimSpace(s.Annotations[OriginClusterAnnotation]) == "" {
		origin = ""
	}
	for i := range s.Output {
		io := &s.Output[i]
		path := strings.Trim(io.Path, " /")
		if path == "" {
			return errors.New("output path cannot be empty")
		}
		if kind, id := Provider(io.Provider); bucketed(kind) && !strings.Contains(path, "/") {
			bucket := s.Name
			if origin != "" && kind == "minio" && strings.TrimSpace(id) == DefaultProvider {
				bucket = origin
			}
			path = bucket + "/" + path
		}
		io.Path = path
	}
	return nil
}

func bucketed(kind string) bool { return kind == "minio" || kind == "s3" }

// Defaults fills in what OSCAR fills in on POST and on PUT alike. minio is the cluster's own provider, newToken is
// used unless the worker annotation keeps the given one.
func (s *Service) Defaults(minio MinIOProvider, newToken func() string) {
	s.AllowedUsers = trimmed(s.AllowedUsers)
	s.Script = strings.ReplaceAll(strings.ReplaceAll(s.Script, "\r\n", "\n"), "\r", "\n")
	setDefault(&s.Memory, "256Mi")
	setDefault(&s.CPU, "0.2")
	setDefault(&s.Visibility, "private")
	s.LogLevel = strings.ToUpper(s.LogLevel)
	switch s.LogLevel {
	case "NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL":
	default:
		s.LogLevel = "INFO"
	}
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	s.Labels["oscar.grycap/user-service"] = "true"
	s.Labels[ServiceLabel] = s.Name
	s.Labels["applicationId"] = s.Name
	s.Labels["queue"] = "root.oscar-queue." + s.Name
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.defaultProvider(minio)
	if s.Federation != nil && s.Federation.Topology == "" {
		s.Federation.Topology = "none"
	}
	if !s.KeepsToken() {
		s.Token = newToken()
	}
}

// DefaultGroup names the group of a federation after the service.
func (s *Service) DefaultGroup() {
	if s.Federation != nil && strings.TrimSpace(s.Federation.GroupID) == "" {
		s.Federation.GroupID = s.Name
	}
}

// defaultProvider puts the cluster's own MinIO, its keys hidden, at minio.default. A worker with an origin, and a
// service with members, keep an endpoint of their own.
func (s *Service) defaultProvider(minio MinIOProvider) {
	minio.AccessKey, minio.SecretKey = "hidden", "hidden"
	if s.StorageProviders == nil {
		s.StorageProviders = &StorageProviders{}
	}
	if s.StorageProviders.MinIO == nil {
		s.StorageProviders.MinIO = map[string]*MinIOProvider{}
	}
	_, fromOrigin := s.Annotations[OriginClusterAnnotation]
	if own := s.StorageProviders.MinIO[DefaultProvider]; own != nil && strings.TrimSpace(own.Endpoint) != "" && (fromOrigin || s.HasMembers()) {
		return
	}
	s.StorageProviders.MinIO[DefaultProvider] = &minio
}

// Defined reports whether the provider that an input or output refers to is in storage_providers.
func (s *Service) Defined(kind, id string) bool {
	p := s.StorageProviders
	if p == nil {
		return false
	}
	switch kind {
	case "minio":
		return p.MinIO[id] != nil
	case "s3":
		return p.S3[id] != nil
	case "onedata":
		return p.Onedata[id] != nil
	case "webdav":
		return p.WebDav[id] != nil
	case "rucio":
		return p.Rucio[id] != nil
	}
	return false
}

// Stored returns the service as it reads back: secret values blank, lists and maps never null, what OSCAR leaves out
// when empty left out.
func (s *Service) Stored() *Service {
	c := *s
	c.Input, c.Output = append([]StorageIOConfig{}, s.Input...), append([]StorageIOConfig{}, s.Output...)
	c.AllowedUsers = append([]string{}, s.AllowedUsers...)
	c.BucketList = append([]string{}, s.BucketList...)
	c.Environment = Environment{Vars: copied(s.Environment.Vars), Secrets: map[string]string{}}
	for k := range s.Environment.Secrets {
		c.Environment.Secrets[k] = ""
	}
	c.Annotations, c.Labels = copied(s.Annotations), copied(s.Labels)
	if s.Federation != nil {
		f := *s.Federation
		f.Members = append([]Replica(nil), f.Members...)
		for i := range f.Members {
			f.Members[i].Headers = copied(f.Members[i].Headers)
		}
		c.Federation = &f
	}
	c.Deployment = nil
	if s.Volume != nil {
		v := *s.Volume
		c.Volume = &v
	}
	c.VolumeStatus = VolumeStatus{}
	return &c
}

func copied(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	maps.Copy(out, m)
	return out
}

func trimmed(users []string) []string {
	out := make([]string, 0, len(users))
	for _, u := range users {
		if u = strings.TrimSpace(u); u != "" {
			out = append(out, u)
		}
	}
	return out
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}
