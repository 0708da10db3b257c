package oscar

import "strings"

// What OSCAR fills in.
const (
	DefaultCPU      = "0.2"
	DefaultMemory   = "256Mi"
	DefaultLogLevel = "INFO"
)

// WithDefaults is the service as OSCAR's own answers show it: defaults filled in,
// arrays and maps present, zero values written, paths and the log level in their
// normal form. What only one cluster knows (namespace, the endpoint of its MinIO,
// the labels that it adds) is not filled in.
func (s *Service) WithDefaults() *Service {
	out := s.Clone()
	out.full = true
	setIfEmpty(&out.CPU, DefaultCPU)
	setIfEmpty(&out.Memory, DefaultMemory)
	setIfEmpty(&out.Visibility, VisibilityPrivate)
	out.LogLevel = strings.ToUpper(out.LogLevel)
	switch out.LogLevel {
	case "NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL":
	default:
		out.LogLevel = DefaultLogLevel
	}
	out.Script = strings.ReplaceAll(strings.ReplaceAll(out.Script, "\r\n", "\n"), "\r", "\n")
	if out.Environment.Variables == nil {
		out.Environment.Variables = map[string]string{}
	}
	if out.Environment.Secrets == nil {
		out.Environment.Secrets = map[string]string{}
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if out.Input == nil {
		out.Input = []IO{}
	}
	if out.Output == nil {
		out.Output = []IO{}
	}
	if out.BucketList == nil {
		out.BucketList = []string{}
	}
	users := []string{}
	for _, user := range out.AllowedUsers {
		if user = strings.TrimSpace(user); user != "" {
			users = append(users, user)
		}
	}
	out.AllowedUsers = users
	out.ImagePullSecrets = nilIfEmpty(out.ImagePullSecrets)
	out.normalisePaths()
	out.defaultProvider()
	if f := out.Federation; f != nil {
		setIfEmpty(&f.GroupID, out.Name)
		if len(f.Members) == 0 {
			setIfEmpty(&f.Topology, TopologyNone)
		}
		setIfEmpty(&f.Topology, TopologyStar)
		for i := range f.Members {
			setIfEmpty(&f.Members[i].Type, MemberOSCAR)
		}
	}
	return out
}

func (s *Service) normalisePaths() {
	origin := ""
	if strings.TrimSpace(s.Annotations[AnnotationOriginCluster]) != "" {
		origin = strings.TrimSpace(s.Annotations[AnnotationOriginService])
	}
	normal := func(io *IO, origin string) {
		path := strings.Trim(io.Path, " /")
		provider, id := ProviderRef(io.Provider)
		if path != "" && !strings.Contains(path, "/") && (provider == ProviderMinIO || provider == ProviderS3) {
			bucket := s.Name
			if provider == ProviderMinIO && id == ProviderDefault && origin != "" {
				bucket = origin
			}
			path = bucket + "/" + path
		}
		io.Path = path
		io.Prefix, io.Suffix = nilIfEmpty(io.Prefix), nilIfEmpty(io.Suffix)
	}
	for i := range s.Input {
		normal(&s.Input[i], "")
	}
	for i := range s.Output {
		normal(&s.Output[i], origin)
	}
}

// RestorePaths undoes what WithDefaults did to paths: where s has the normal form
// of a path of old, it gets old's own words again. A client that reads a service
// and sends it back would otherwise turn a folder of each replica's own bucket into
// one of the coordinator's.
func (s *Service) RestorePaths(old *Service) {
	normal := old.Clone()
	normal.normalisePaths()
	restore := func(now, was, shown []IO) {
		for i := range min(len(now), len(was)) {
			if now[i].Provider == was[i].Provider && now[i].Path == shown[i].Path {
				now[i].Path = was[i].Path
			}
		}
	}
	restore(s.Input, old.Input, normal.Input)
	restore(s.Output, old.Output, normal.Output)
}

// defaultProvider adds minio.default, which clients look up; its keys are never
// shown.
func (s *Service) defaultProvider() {
	m, _ := s.defaultMinIO()
	m.AccessKey, m.SecretKey = HiddenCredential, HiddenCredential
	s.setDefaultMinIO(m)
}

func setIfEmpty(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

func nilIfEmpty(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}
