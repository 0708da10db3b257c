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
	return bucketsOf(s, s.Name, origin)
}

// workerBuckets are the buckets of the replica that member m stands for.
func workerBuckets(s *Service, m Member) []string { return bucketsOf(s, m.ServiceName, s.Name) }

func bucketsOf(s *Service, name, origin string) []string {
	set := map[string]bool{}
	add := func(bucket string) {
		if bucket = strings.TrimSpace(bucket); bucket != "" {
			set[bucket] = true
		}
	}
	for _, in := range s.Input {
		path := strings.Trim(in.Path, " /")
		if provider, _ := ProviderRef(in.Provider); provider != ProviderMinIO || path == "" {
			continue
		}
		bucket, ok := bucketOf(false, name, path)
		if !ok {
			bucket = name
		}
		add(bucket)
		if strings.EqualFold(s.IsolationLevel, IsolationUser) {
			for _, user := range s.AllowedUsers {
				if user = strings.TrimSpace(user); len(user) >= minIsolatedUser {
					add(bucket + "-" + user[:minIsolatedUser])
				}
			}
		}
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
	for _, bucket := range s.BucketList {
		add(bucket)
	}
	return sortedKeys(set)
}
