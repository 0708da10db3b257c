package contract

import (
	"encoding/json"
	"strings"
	"testing"
)

// readBack checks defaults, normalisation, and that a definition reads back byte for byte the same.
func (s *suite) readBack(t *testing.T) {
	t.Run("minimal", func(t *testing.T) {
		n := s.name("min")
		minimal := definition{"name": n, "image": "docker.io/library/busybox", "script": "a\r\nb\r\n"}
		s.post(t, minimal).must(t, 201, "")
		first := s.get(t, n)
		labels := `{"applicationId":"` + n + `","oscar.grycap/user-service":"true","oscar_service":"` + n + `",..owner_name..queue":"root.oscar-queue.` + n + `"}`
		first.want(t, 200, `{"name":"`+n+`","cluster_id":"","memory":"256Mi","cpu":"0.2","total_memory":"","total_cpu":"","ephemeral_storage_request":"",`+
			`"enable_gpu":false,"enable_sgx":false,"image_prefetch":false,"synchronous":{"min_scale":0,"max_scale":0},"log_level":"INFO",`+
			`"image":"docker.io/library/busybox","alpine":false,"token":"..","file_stage_in":false,"input":[],"output":[],"script":"a\nb\n",`+
			`"expose":{"min_scale":0,"max_scale":0,"cpu_threshold":0,"rewrite_target":false,"default_command":false,"set_auth":false,"health_path":""},`+
			`"environment":{"variables":{},"secrets":{}},"annotations":{},"vo":"","labels":`+labels+`,`+
			`"storage_providers":{"minio":{"default":{"endpoint":"`+s.minio.Endpoint+`","verify":..,"access_key":"hidden","secret_key":"hidden","region":"`+s.minio.Region+`"}}},`+
			`"owner":"cluster_admin","namespace":"`+s.services+`","interlink_node_name":"","visibility":"private","allowed_users":[],"isolation_level":"","bucket_list":[],`+
			`"mount":{"storage_provider":"","path":""},"volume_status":{"enabled":false}}`)
		s.stable(t, n, minimal.with("owner", "cluster_admin"), first)
		s.delete(t, n).want(t, 204, "")
	})
	t.Run("rich", func(t *testing.T) {
		n := s.name("rich")
		rich := bare(n).with("log_level", "debug").with("cpu", "1000m").with("memory", "1024Mi").
			with("input", []any{map[string]any{"storage_provider": "minio", "path": "/" + n + "/in/", "prefix": []string{}, "suffix": []string{}}}).
			with("output", []any{map[string]any{"storage_provider": "minio.default", "path": "out", "suffix": []string{"png"}}}).
			with("allowed_users", []string{" a ", "", "b"}).with("unknown", 1).
			with("environment", map[string]any{"Variables": map[string]string{"v": "1"}, "secrets": map[string]string{"k": "v"}}).
			with("annotations", map[string]string{"example.org/a": "1"}).with("labels", map[string]string{"own": "1"})
		s.post(t, rich.with("owner", "somebody").with("token", "mine")).must(t, 201, "")
		got := s.get(t, n)
		got.has(t, `"DEBUG"`, "log_level")
		got.has(t, `"1000m"`, "cpu")
		got.has(t, `"1024Mi"`, "memory")
		got.has(t, `[{"storage_provider":"minio","path":"`+n+`/in"}]`, "input")
		got.has(t, `[{"storage_provider":"minio.default","path":"`+n+`/out","suffix":["png"]}]`, "output")
		got.has(t, `["a","b"]`, "allowed_users")
		got.has(t, `{"variables":{"v":"1"},"secrets":{"k":""}}`, "environment")
		got.has(t, `"cluster_admin"`, "owner")
		got.has(t, "", "unknown")
		s.stable(t, n, rich, got)

		// Annotations and labels are replaced as a whole.
		s.put(t, rich.with("annotations", map[string]string{"example.org/b": "2"}).with("labels", map[string]string{"other": "2"})).want(t, 204, "")
		got = s.get(t, n)
		got.has(t, `{"example.org/b":"2"}`, "annotations")
		got.has(t, `{"applicationId":"`+n+`","oscar.grycap/user-service":"true","oscar_service":"`+n+`","other":"2","queue":"root.oscar-queue.`+n+`"}`, "labels")
		s.put(t, rich.without("annotations", "labels")).want(t, 204, "")
		got = s.get(t, n)
		got.has(t, `{}`, "annotations")
		got.has(t, `{"applicationId":"`+n+`","oscar.grycap/user-service":"true","oscar_service":"`+n+`","queue":"root.oscar-queue.`+n+`"}`, "labels")
		s.delete(t, n).want(t, 204, "")
	})
}

// stable checks that reads agree, that the first PUT of the same body drops labels.owner_name and changes nothing
// else, and that later ones, also of what GET answered, change nothing.
func (s *suite) stable(t *testing.T, name string, body definition, first answer) {
	t.Helper()
	for range 3 {
		s.get(t, name).want(t, 200, first.body)
	}
	if all := s.do(t, "GET", "/system/services", nil); !strings.Contains(all.body, first.body) {
		t.Errorf("the list does not hold\n%s", first.body)
	}
	s.put(t, body).want(t, 204, "")
	after := s.get(t, name)
	expected := strings.Replace(first.body, `"owner_name":"oscar",`, "", 1)
	if after.body != expected {
		t.Errorf("the first PUT of the same body made\n%s\nwant\n%s", after.body, expected)
	}
	s.put(t, body).want(t, 204, "")
	s.get(t, name).want(t, 200, after.body)

	var own definition
	if err := json.Unmarshal([]byte(after.body), &own); err != nil {
		t.Fatal(err)
	}
	environment, _ := own["environment"].(map[string]any)
	delete(environment, "secrets") // blank values would destroy the Secret
	s.put(t, own).want(t, 204, "")
	withoutSecrets := s.get(t, name)
	// The definition forgets the names of the secrets, nothing else.
	before, now := after.field(t, "environment"), withoutSecrets.field(t, "environment")
	if strings.Replace(after.body, before, now, 1) != withoutSecrets.body {
		t.Errorf("the PUT of what GET answered made\n%s\nof\n%s", withoutSecrets.body, after.body)
	}
	s.put(t, body).want(t, 204, "")
	s.get(t, name).want(t, 200, after.body)
}
