package oscar

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A definition with federaton: became a service of one cluster without a word.
func TestUnknownKeysAreFound(t *testing.T) {
	for text, want := range map[string][]string{
		`{"name":"a","federaton":{}}`: {"federaton"},
		`{"name":"a","federation":{"topolgy":"mesh","members":[{"cluster_id":"b","prio":1}]}}`:   {"federation.topolgy", "federation.members[0].prio"},
		`{"name":"a","input":[{"storage_provider":"minio","pth":"x"}],"labels":{"any":"thing"}}`: {"input[0].pth"},
		`{"name":"a","kserve":{"type":"inference","storage_uri":"s","inference":{"model_format":"onnx","runtime":"r","rntime":"r"},"llm_inference":{"runtime_image":"i"},
		  "api_version":"v2","min_scale":1,"max_scale":2,"cpu":"1","memory":"1Gi","args":["a"],"env":{"A":"b"},"enable_gpu":true,"set_auth":false,"minscale":1}}`: {"kserve.minscale", "kserve.inference.rntime"},
		// What OSCAR itself knows, in the forms of v3 and v4.
		`{"name":"a","replicas":[{"type":"oscar","cluster_id":"b","service_name":"a"}],"delegation":"static","rescheduler_threshold":30,
		  "environment":{"Variables":{"A":"b"},"secrets":{"S":"t"}},"expose":{"api_port":80,"nodePort":30000},"total_memory":"1Gi","vo":"v",
		  "bucket_list":[],"volume":{"name":"v","size":"1Gi","mount_path":"/m","lifecycle_policy":"retain"},"mount":{"storage_provider":"minio","path":"p"},
		  "deployment":{"anything":1},"volume_status":{"enabled":true},"interlink_node_name":"n","storage_providers":{"minio":{"default":{"endpoint":"e","verify":true,
		  "access_key":"a","secret_key":"s","region":"r"}},"rucio":{"r":{"host":"h","account":"a","rse":"r","refresh_token":"t","auth_host":"a","oidc_audience":"o","token_endpoint":"e"}}},
		  "clusters":{"c":{"endpoint":"e","auth_user":"u","auth_password":"p","ssl_verify":true}}}`: nil,
	} {
		s, violations := ParseService([]byte(text))
		if len(violations) > 0 {
			t.Fatalf("%s: %v", text, violations)
		}
		var got []string
		for _, u := range UnknownKeys(s) {
			got = append(got, u.Path)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", text, diff)
		}
	}
}
