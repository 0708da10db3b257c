package oscar

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

var mountOptions = regexp.MustCompile(`^[a-zA-Z0-9_.:=,/ -]*$`)

func checkStorage(s *Service) []Violation {
	var vs []Violation
	vs = append(vs, checkLength("input", len(s.Input), MaxIO)...)
	vs = append(vs, checkLength("output", len(s.Output), MaxIO)...)
	for i, io := range s.Input {
		vs = append(vs, checkIO(s, indexPath("input", i), io, ProviderMinIO, ProviderWebDAV, ProviderRucio)...)
	}
	for i, io := range s.Output {
		vs = append(vs, checkIO(s, indexPath("output", i), io, ProviderMinIO, ProviderS3, ProviderOnedata, ProviderWebDAV, ProviderRucio)...)
	}
	if s.Mount.Provider != "" {
		vs = append(vs, checkIO(s, "mount", s.Mount, ProviderMinIO, ProviderS3, ProviderWebDAV)...)
		if !mountOptions.MatchString(s.Mount.Options) {
			vs = append(vs, Violation{Path: "mount.options", Rule: RuleName, Value: shorten(s.Mount.Options), Message: fmt.Sprintf(
				"mount.options %s is refused by OSCAR; use letters, digits, blanks and - _ . : = , /", quote(s.Mount.Options))})
		}
	}
	return append(vs, checkEndpoints(s)...)
}

func checkLength(path string, n, limit int) []Violation {
	if n <= limit {
		return nil
	}
	return []Violation{{Path: path, Rule: RuleMaxLength, Value: n, Message: fmt.Sprintf(
		"%s has %d entries; the limit is %d", path, n, limit)}}
}

// checkIO checks one input or output against the provider types that OSCAR
// takes there.
func checkIO(s *Service, at string, io IO, types ...string) []Violation {
	var vs []Violation
	provider, id := ProviderRef(io.Provider)
	switch {
	case strings.TrimSpace(io.Provider) == "":
		vs = append(vs, Violation{Path: at + ".storage_provider", Rule: RuleRequired, Message: at + ".storage_provider is missing; use minio.default for the cluster's own MinIO"})
	default:
		known := false
		for _, t := range types {
			known = known || t == provider
		}
		if !known {
			where := strings.TrimRight(at, "[]0123456789")
			vs = append(vs, Violation{Path: at + ".storage_provider", Rule: RuleOneOf, Value: shorten(io.Provider), Message: fmt.Sprintf(
				"storage provider %s cannot be used for %s; use %s, with .<id>", quote(io.Provider), where, wordList(types...))})
		} else if !s.StorageProviders.Defined(provider, id) && !s.faultBelow("storage_providers") {
			vs = append(vs, Violation{Path: at + ".storage_provider", Rule: RuleDefinedProvider, Value: shorten(io.Provider), Message: fmt.Sprintf(
				"storage provider %s is not defined; define storage_providers%s%s, or use minio.default", quote(io.Provider), "."+provider, keySuffix(id))})
		}
	}
	path := strings.Trim(io.Path, " /")
	if path == "" {
		return append(vs, Violation{Path: at + ".path", Rule: RuleRequired, Message: at + ".path is missing; give <bucket>/<folder>"})
	}
	if provider == ProviderMinIO {
		if name, ok := bucketOf(at == "mount", s.Name, path); ok && !validBucket(name) {
			vs = append(vs, Violation{Path: at + ".path", Rule: RuleName, Value: shorten(io.Path), Message: fmt.Sprintf(
				"bucket %s is refused by MinIO; use 3 to 63 lower-case letters, digits, '-' and '.'", quote(name))})
		}
	}
	return vs
}

func keySuffix(id string) string { return strings.TrimPrefix(joinPath("x", id), "x") }

// bucketOf is the bucket of a trimmed path; ok is false when it is named by the
// service, whose name is checked on its own.
func bucketOf(mount bool, service, path string) (name string, ok bool) {
	head, _, found := strings.Cut(path, "/")
	if found || mount {
		return head, true
	}
	return service, false
}

// checkEndpoints refuses passwords in the urls of providers and clusters, which
// are not sealed.
func checkEndpoints(s *Service) []Violation {
	urls := map[string]string{}
	if p := s.StorageProviders; p != nil {
		for id, m := range p.MinIO {
			urls[joinPath("storage_providers.minio", id)+".endpoint"] = m.Endpoint
		}
		for id, o := range p.Onedata {
			urls[joinPath("storage_providers.onedata", id)+".oneprovider_host"] = o.OneproviderHost
		}
		for id, w := range p.WebDAV {
			urls[joinPath("storage_providers.webdav", id)+".hostname"] = w.Hostname
		}
		for id, r := range p.Rucio {
			at := joinPath("storage_providers.rucio", id)
			urls[at+".host"], urls[at+".auth_host"], urls[at+".token_endpoint"] = r.Host, r.AuthHost, r.TokenEndpoint
		}
	}
	for id, c := range s.Clusters {
		urls[joinPath("clusters", id)+".endpoint"] = c.Endpoint
	}
	var vs []Violation
	for _, path := range sortedKeys(urls) {
		if u, err := url.Parse(urls[path]); err == nil && len(urls[path]) <= MaxURLLength {
			vs = append(vs, checkUserInfo(path, u)...)
		} else if urls[path] != "" {
			vs = append(vs, Violation{Path: path, Rule: RuleType, Message: fmt.Sprintf(
				"%s is not a url of at most %d characters", path, MaxURLLength)})
		}
	}
	return vs
}

// checkSharedBuckets refuses two replicas on one cluster that name the same
// bucket there: the deletion of one would empty the bucket of the other.
func checkSharedBuckets(s *Service) []Violation {
	if s.Federation == nil || len(s.Federation.Members) > MaxReplicas+MaxEndpoints || len(s.Input) > MaxIO || len(s.Output) > MaxIO {
		return nil // nothing, or refused already: what follows costs members times paths
	}
	type place struct{ cluster, bucket string }
	taken := map[place]string{}
	if s.ClusterID != "" {
		for b := range bucketsOf(s, s.Name, "") {
			taken[place{s.ClusterID, b}] = s.Name
		}
	}
	var vs []Violation
	seen := map[MemberKey]bool{{Type: MemberOSCAR, ClusterID: s.ClusterID, ServiceName: s.Name}: true}
	for i, m := range s.Federation.Members {
		if !m.Replica() || m.ClusterID == "" || m.ServiceName == "" || seen[m.Key()] {
			continue // incomplete, or repeated: a violation of its own
		}
		seen[m.Key()] = true
		// A worker's outputs go to the bucket of the coordinator's service.
		for _, b := range sortedKeys(bucketsOf(s, m.ServiceName, s.Name)) {
			at := place{m.ClusterID, b}
			other, ok := taken[at]
			if !ok {
				taken[at] = m.ServiceName
				continue
			}
			vs = append(vs, Violation{Path: s.MemberPath(i) + ".cluster_id", Rule: RuleSharedBucket, Value: m.ClusterID, Message: fmt.Sprintf(
				"%q and %q would share bucket %q on cluster %q, and deleting one would empty it for the other; put them on different clusters, or give paths without a bucket",
				m.ServiceName, other, b, m.ClusterID)})
			break
		}
	}
	return vs
}
