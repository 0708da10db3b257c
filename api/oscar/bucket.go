package oscar

import "strings"

// Buckets lists the buckets of the cluster's own MinIO that OSCAR makes and uses
// for a service, sorted, each once. It follows OSCAR: the first part of a path;
// a path without "/" is a folder in the bucket named as the service, or as the
// origin's service for an output of minio.default that carries both origin
// annotations; a mount's path always begins with a bucket; inputs of any minio
// provider are local, since OSCAR accepts no other; under isolation USER each
// allowed user has a bucket of his own.
//
// OSCAR's DELETE reaches further: it also empties and deletes the local bucket
// that is named as one of an output of another minio or of s3. Detaching the
// storage first keeps it from both.
func Buckets(s *Service) []string {
	origin := ""
	if strings.TrimSpace(s.Annotations[AnnotationOriginCluster]) != "" {
		origin = strings.TrimSpace(s.Annotations[AnnotationOriginService])
	}
	set := bucketsOf(s, s.Name, origin)
	addIsolated(set, s)
	return sortedKeys(set)
}

// Elsewhere says whether an output is in a bucket of a store that is not the cluster's own MinIO.
func (v IO) Elsewhere() bool {
	provider, id := ProviderRef(v.Provider)
	return provider == ProviderS3 || provider == ProviderMinIO && id != ProviderDefault
}

// BucketsElsewhere lists the buckets of outputs that are elsewhere, sorted, each once. OSCAR does not tell them from
// buckets of the cluster's own MinIO of these names: a POST that fails deletes those, another sets their tags, and each
// gives the owner rights on them.
func BucketsElsewhere(s *Service) []string {
	set := map[string]bool{}
	for _, out := range s.Output {
		if path := strings.Trim(out.Path, " /"); path != "" && out.Elsewhere() {
			bucket, _ := bucketOf(false, s.Name, path)
			set[bucket] = true
		}
	}
	return sortedKeys(set)
}

// PrivateBuckets lists the buckets that OSCAR makes for the allowed users of a service
// under isolation USER, sorted, each once; nil under another.
func PrivateBuckets(s *Service) []string {
	if !strings.EqualFold(s.IsolationLevel, IsolationUser) {
		return nil
	}
	set := map[string]bool{}
	for _, bucket := range inputBuckets(s, s.Name) {
		for _, user := range s.AllowedUsers {
			if user = strings.TrimSpace(user); len(user) >= minIsolatedUser {
				set[bucket+"-"+user[:minIsolatedUser]] = true
			}
		}
	}
	return sortedKeys(set)
}

// addIsolated adds the buckets of single users and those that OSCAR listed.
func addIsolated(set map[string]bool, s *Service) {
	for _, bucket := range PrivateBuckets(s) {
		set[bucket] = true
	}
	for _, bucket := range s.BucketList {
		if bucket = strings.TrimSpace(bucket); bucket != "" {
			set[bucket] = true
		}
	}
}

// InputPaths lists the inputs of a service that are in the cluster's own MinIO as OSCAR writes
// them: a bucket, and a folder in it.
func InputPaths(s *Service) []string { return inputPaths(s, s.Name) }

// inputPaths are the local inputs of a replica of that name.
func inputPaths(s *Service, name string) []string {
	var out []string
	for _, in := range s.Input {
		path := strings.Trim(in.Path, " /")
		if provider, _ := ProviderRef(in.Provider); provider != ProviderMinIO || path == "" {
			continue
		}
		if !strings.Contains(path, "/") {
			path = name + "/" + path
		}
		out = append(out, path)
	}
	return out
}

// inputBuckets are the buckets of the local inputs of a replica of that name.
func inputBuckets(s *Service, name string) []string {
	set := map[string]bool{}
	for _, path := range inputPaths(s, name) {
		bucket, _, _ := strings.Cut(path, "/")
		set[bucket] = true
	}
	return sortedKeys(set)
}

// bucketsOf are the local buckets of inputs, outputs and mount of a replica of
// that name.
func bucketsOf(s *Service, name, origin string) map[string]bool {
	set := map[string]bool{}
	add := func(bucket string) {
		if bucket = strings.TrimSpace(bucket); bucket != "" {
			set[bucket] = true
		}
	}
	for _, bucket := range inputBuckets(s, name) {
		add(bucket)
	}
	for _, out := range s.Output {
		path := strings.Trim(out.Path, " /")
		provider, id := ProviderRef(out.Provider)
		if provider != ProviderMinIO || id != ProviderDefault || path == "" {
			continue
		}
		bucket, ok := bucketOf(false, name, path)
		if !ok && origin != "" {
			bucket = origin
		}
		add(bucket)
	}
	if provider, id := ProviderRef(s.Mount.Provider); provider == ProviderMinIO && id == ProviderDefault {
		bucket, _, _ := strings.Cut(strings.Trim(s.Mount.Path, " /"), "/")
		add(bucket)
	}
	return set
}
