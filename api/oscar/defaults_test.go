package oscar

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The literal is the read-back of a minimal service by OSCAR v4.1.2, without
// what only one cluster knows.
func TestWithDefaultsIsTheReadBackOfAMinimalService(t *testing.T) {
	s := parse(t, `{"name":"svc","image":"i","script":"a\r\nb"}`)
	before := text(t, s)
	want := `{"name":"svc","cluster_id":"","image":"i","cpu":"0.2","memory":"256Mi","total_memory":"","total_cpu":"","ephemeral_storage_request":"",` +
		`"enable_gpu":false,"enable_sgx":false,"image_prefetch":false,"synchronous":{"min_scale":0,"max_scale":0},"log_level":"INFO","alpine":false,"token":"","file_stage_in":false,` +
		`"script":"a\nb","expose":{"min_scale":0,"max_scale":0,"cpu_threshold":0,"rewrite_target":false,"default_command":false,"set_auth":false,"health_path":""},` +
		`"environment":{"variables":{},"secrets":{}},"annotations":{},"labels":{},"vo":"","input":[],"output":[],` +
		`"storage_providers":{"minio":{"default":{"endpoint":"","verify":false,"access_key":"hidden","secret_key":"hidden","region":""}}},` +
		`"owner":"","interlink_node_name":"","visibility":"private","allowed_users":[],"isolation_level":"","bucket_list":[],"mount":{"storage_provider":"","path":""},"volume_status":{"enabled":false}}`
	if diff := cmp.Diff(want, text(t, s.WithDefaults())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text(t, s) != before {
		t.Error("the service itself was changed")
	}
}

func TestWithDefaultsNormalises(t *testing.T) {
	s := parse(t, `{"name":"rich1","log_level":"debug","allowed_users":[" a ",""],"input":[{"storage_provider":"minio","path":"/rich1/in/","suffix":[]}],`+
		`"output":[{"storage_provider":"minio","path":"out"},{"storage_provider":"onedata.o","path":"/x/"}],"federation":{"members":[{"cluster_id":"b","service_name":"svc"}]},`+
		`"cpu":"1000m","expose":{"api_port":[]},"new":{"x":1}}`).WithDefaults()
	if s.LogLevel != "DEBUG" || s.CPU != "1000m" || len(s.AllowedUsers) != 1 || s.AllowedUsers[0] != "a" {
		t.Errorf("%+v", s)
	}
	if s.Input[0].Path != "rich1/in" || s.Output[0].Path != "rich1/out" || s.Output[1].Path != "x" {
		t.Errorf("paths %+v %+v", s.Input, s.Output)
	}
	if f := s.Federation; f.GroupID != "rich1" || f.Topology != "star" || f.Members[0].Type != "oscar" {
		t.Errorf("federation %+v", f)
	}
	if got := text(t, s.WithDefaults()); got != text(t, s) {
		t.Errorf("not idempotent: %s", got)
	}
	if again := parse(t, text(t, s)); !Equal(again.WithDefaults(), s) {
		t.Error("a client that sends back what it got changes the service")
	}
}

func TestRestorePaths(t *testing.T) {
	old := parse(t, `{"name":"svc","input":[{"storage_provider":"minio","path":"in"},{"storage_provider":"minio","path":"x/in"}],"output":[{"storage_provider":"minio","path":"/out/"}]}`)
	sent := parse(t, text(t, old.WithDefaults()))
	sent.Input = append(sent.Input, IO{Provider: "minio", Path: "svc/in"})
	sent.RestorePaths(old)
	if sent.Input[0].Path != "in" || sent.Input[1].Path != "x/in" || sent.Input[2].Path != "svc/in" || sent.Output[0].Path != "/out/" {
		t.Errorf("%+v %+v", sent.Input, sent.Output)
	}
	sent.Input[0].Path, sent.Output[0].Provider = "other/in", "s3.x"
	sent.Output[0].Path = "svc/out"
	sent.RestorePaths(old)
	if sent.Input[0].Path != "other/in" || sent.Output[0].Path != "svc/out" {
		t.Errorf("a change was undone: %+v %+v", sent.Input, sent.Output)
	}
}
