package contract

import (
	"maps"
	"testing"
)

// definition is a service to send.
type definition map[string]any

// bare is a service without storage, as the administrator sends it on PUT too (with owner).
func bare(name string) definition {
	return definition{"name": name, "image": "docker.io/library/busybox", "script": "true\n", "owner": "cluster_admin"}
}

// plain is a service with input and output in a bucket.
func plain(name, bucket string) definition {
	return bare(name).with("input", files(bucket+"/in")).with("output", files(bucket+"/out"))
}

// worker has the shape for which POST makes no bucket: worker annotation and topology mesh.
func worker(name, bucket string) definition {
	return plain(name, bucket).with("federation", federation("mesh")).with("annotations", map[string]string{workerAnnotation: "true"})
}

const workerAnnotation = "oscar.grycap/federation-worker"

// with returns a copy with one field set.
func (d definition) with(field string, value any) definition {
	c := maps.Clone(d)
	c[field] = value
	return c
}

// without returns a copy without some fields.
func (d definition) without(fields ...string) definition {
	c := maps.Clone(d)
	for _, f := range fields {
		delete(c, f)
	}
	return c
}

func files(path string) []map[string]string {
	return []map[string]string{{"storage_provider": "minio.default", "path": path}}
}

func federation(topology string) map[string]any {
	return map[string]any{"topology": topology, "members": []any{}}
}

func (s *suite) post(t *testing.T, d any) answer {
	t.Helper()
	return s.do(t, "POST", "/system/services", d)
}

func (s *suite) put(t *testing.T, d any) answer {
	t.Helper()
	return s.do(t, "PUT", "/system/services", d)
}

func (s *suite) get(t *testing.T, name string) answer {
	t.Helper()
	return s.do(t, "GET", "/system/services/"+name, nil)
}

func (s *suite) delete(t *testing.T, name string) answer {
	t.Helper()
	return s.do(t, "DELETE", "/system/services/"+name, nil)
}

// bucket answers a bucket with its objects and tags; 500 when it is not there.
func (s *suite) bucket(t *testing.T, name string) answer {
	t.Helper()
	return s.do(t, "GET", "/system/buckets/"+name, nil)
}

// gone checks that a bucket is not there.
func (s *suite) gone(t *testing.T, name string) {
	t.Helper()
	s.bucket(t, name).want(t, 500, "Error listing objects in bucket '"+name+"': NoSuchBucket..")
}

// kept checks that a bucket is there with these folders, in order, and its tag from_service ("" for none).
func (s *suite) kept(t *testing.T, name, fromService string, folders ...string) {
	t.Helper()
	got := s.bucket(t, name)
	got.must(t, 200, `{"bucket_name":"`+name+`",..`)
	var objects []string
	for _, o := range list(got.object(t)["objects"]) {
		object, _ := o.(map[string]any)
		n, _ := object["object_name"].(string)
		objects = append(objects, n)
	}
	if len(objects) != len(folders) {
		t.Errorf("%s holds %v, want %v", name, objects, folders)
	} else {
		for i := range folders {
			if objects[i] != folders[i] {
				t.Errorf("%s holds %v, want %v", name, objects, folders)
				break
			}
		}
	}
	tags, _ := got.object(t)["metadata"].(map[string]any)
	if from, _ := tags["from_service"].(string); from != fromService {
		t.Errorf("%s has the tags %v, want from_service %q", name, tags, fromService)
	}
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}
