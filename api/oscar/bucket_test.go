package oscar

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBuckets(t *testing.T) {
	const origin = `"annotations":{"oscar.grycap/origin-cluster":"a","oscar.grycap/origin-service":"orig"}`
	tests := []struct {
		name, in string
		want     []string
	}{
		{"none", `{"name":"svc"}`, []string{}},
		{"first part of the path", `{"name":"svc","input":[{"storage_provider":"minio.default","path":"/b1/in/x/"}],"output":[{"storage_provider":"minio","path":"b2/out"},{"storage_provider":"MINIO.default","path":"b1/y"}]}`, []string{"b1", "b2"}},
		{"a path without a bucket", `{"name":"svc","input":[{"storage_provider":"minio","path":"in"}],"output":[{"storage_provider":"minio","path":"out/"}]}`, []string{"svc"}},
		{"a worker's output goes to the origin", `{"name":"svc",` + origin + `,"input":[{"storage_provider":"minio","path":"in"}],"output":[{"storage_provider":"minio","path":"out"}]}`, []string{"orig", "svc"}},
		{"both annotations are needed", `{"name":"svc","annotations":{"oscar.grycap/origin-service":"orig"},"output":[{"storage_provider":"minio","path":"out"}]}`, []string{"svc"}},
		{"a mount begins with its bucket", `{"name":"svc","mount":{"storage_provider":"minio.default","path":"vol"}}`, []string{"vol"}},
		{"not local", `{"name":"svc","output":[{"storage_provider":"minio.shared","path":"x/y"},{"storage_provider":"s3.x","path":"x/y"},{"storage_provider":"onedata.o","path":"x/y"}],"input":[{"storage_provider":"webdav.d","path":"x/y"}],"mount":{"storage_provider":"minio.shared","path":"z"}}`, []string{}},
		{"every minio input is local", `{"name":"svc","input":[{"storage_provider":"minio.shared","path":"x/y"}]}`, []string{"x"}},
		{"isolation", `{"name":"svc","isolation_level":"USER","allowed_users":["0123456789abc","short"],"input":[{"storage_provider":"minio","path":"b/in"}],"bucket_list":["b-9876543210"]}`, []string{"b", "b-0123456789", "b-9876543210"}},
		{"an empty path", `{"name":"svc","input":[{"storage_provider":"minio","path":"/"}],"output":[{"storage_provider":"minio"}]}`, []string{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Buckets(parse(t, tc.in))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestProviderRef(t *testing.T) {
	for in, want := range map[string][2]string{
		"minio": {"minio", "default"}, " MinIO.My.ID ": {"minio", "My.ID"}, "s3.x": {"s3", "x"}, "": {"", "default"},
	} {
		if provider, id := ProviderRef(in); [2]string{provider, id} != want {
			t.Errorf("%q: %q %q", in, provider, id)
		}
	}
}
