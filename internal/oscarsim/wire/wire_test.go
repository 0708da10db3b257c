package wire_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

func TestDecodeRefuses(t *testing.T) {
	for body, want := range map[string]string{
		"":                           "EOF",
		`{"name":`:                   "unexpected EOF",
		`[]`:                         "json: cannot unmarshal array into Go value of type types.Service",
		`{"cpu":1}`:                  "json: cannot unmarshal number into Go struct field Service.cpu of type string",
		`{"mount":[]}`:               "json: cannot unmarshal array into Go struct field Service.mount of type types.StorageIOConfig",
		`{"expose":{"api_port":80}}`: "json: cannot unmarshal number into Go struct field Expose.expose.api_port of type []int",
		`null`:                       "Key: 'Service.Name' Error:Field validation for 'Name' failed on the 'required' tag\nKey: 'Service.Image' Error:Field validation for 'Image' failed on the 'required' tag\nKey: 'Service.Script' Error:Field validation for 'Script' failed on the 'required' tag",
		`{"name":"` + strings.Repeat("é", 40) + `","image":"i","script":"s"}`: "Key: 'Service.Name' Error:Field validation for 'Name' failed on the 'max' tag",
	} {
		if _, err := wire.Decode([]byte(body)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v\nwant %s", body, err, want)
		}
	}
}

func TestDecodeAccepts(t *testing.T) {
	for _, body := range []string{
		`{"name":"` + strings.Repeat("é", 39) + `","image":"i","script":"s"}`,
		`{"NAME":"n","Image":"i","script":"s"} and more`,
		`{"name":"n","image":"i","script":"s","environment":{"Variables":{"a":"b"}},"unknown":[1]}`,
	} {
		if _, err := wire.Decode([]byte(body)); err != nil {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestNormalisePaths(t *testing.T) {
	origin := map[string]string{wire.OriginClusterAnnotation: "c", wire.OriginServiceAnnotation: "o"}
	for _, c := range []struct {
		annotations   map[string]string
		provider      string
		path          string
		input, output string
	}{
		{nil, "minio", " /a/b/ ", "a/b", "a/b"},
		{nil, "minio.default", "in", "n/in", "n/in"},
		{nil, "s3.x", "in", "n/in", "n/in"},
		{nil, "onedata", "in", "in", "in"},
		{origin, "minio.default", "in", "n/in", "o/in"},
		{origin, "MINIO", "in", "n/in", "o/in"},
		{origin, "minio.other", "in", "n/in", "n/in"},
		{origin, "s3", "in", "n/in", "n/in"},
		{origin, "minio", "a/in", "a/in", "a/in"},
		{map[string]string{wire.OriginServiceAnnotation: "o"}, "minio", "in", "n/in", "n/in"},
	} {
		io := []wire.StorageIOConfig{{Provider: c.provider, Path: c.path}}
		svc := wire.Service{Name: "n", Annotations: c.annotations, Input: append([]wire.StorageIOConfig(nil), io...), Output: io}
		if err := svc.NormalisePaths(); err != nil || svc.Input[0].Path != c.input || svc.Output[0].Path != c.output {
			t.Errorf("%+v: got %q and %q, %v", c, svc.Input[0].Path, svc.Output[0].Path, err)
		}
	}
	for _, path := range []string{"", "/", " / "} {
		io := []wire.StorageIOConfig{{Provider: "minio", Path: path}}
		if err := (&wire.Service{Input: io}).NormalisePaths(); err == nil || err.Error() != "input path cannot be empty" {
			t.Errorf("input %q: %v", path, err)
		}
		if err := (&wire.Service{Output: io}).NormalisePaths(); err == nil || err.Error() != "output path cannot be empty" {
			t.Errorf("output %q: %v", path, err)
		}
	}
}

func TestWorkerRules(t *testing.T) {
	for _, c := range []struct {
		annotation, topology string
		mesh, keeps          bool
	}{
		{"true", "mesh", true, true},
		{" TRUE ", " Mesh ", true, false},
		{"true", "star", false, true},
		{"True", "none", false, false},
		{"", "mesh", false, false},
		{"1", "mesh", false, false},
	} {
		svc := wire.Service{Annotations: map[string]string{wire.WorkerAnnotation: c.annotation}, Federation: &wire.Federation{Topology: c.topology}}
		if svc.MeshWorker() != c.mesh || svc.KeepsToken() != c.keeps {
			t.Errorf("%+v: mesh worker %t, keeps its token %t", c, svc.MeshWorker(), svc.KeepsToken())
		}
	}
	if alone := (&wire.Service{Annotations: map[string]string{wire.WorkerAnnotation: "true"}}); alone.MeshWorker() || !alone.KeepsToken() {
		t.Error("without a federation object it is a mesh worker, or loses its token")
	}
}

func TestDefaultProvider(t *testing.T) {
	own := wire.MinIOProvider{Endpoint: "http://own", AccessKey: "root", SecretKey: "key", Region: "r"}
	hidden := wire.MinIOProvider{Endpoint: "http://own", AccessKey: "hidden", SecretKey: "hidden", Region: "r"}
	given := wire.MinIOProvider{Endpoint: "http://given", AccessKey: "a", SecretKey: "b"}
	origin := map[string]string{wire.OriginClusterAnnotation: "c"}
	for name, c := range map[string]struct {
		given       *wire.MinIOProvider
		annotations map[string]string
		members     []wire.Replica
		want        wire.MinIOProvider
	}{
		"none":               {nil, nil, nil, hidden},
		"overwritten":        {&given, nil, nil, hidden},
		"kept for a worker":  {&given, origin, nil, given},
		"kept with members":  {&given, nil, []wire.Replica{{}}, given},
		"empty for a worker": {&wire.MinIOProvider{Endpoint: " "}, origin, nil, hidden},
	} {
		svc := wire.Service{Annotations: c.annotations, Federation: &wire.Federation{Members: c.members}}
		if c.given != nil {
			copied := *c.given
			svc.StorageProviders = &wire.StorageProviders{MinIO: map[string]*wire.MinIOProvider{"default": &copied, "other": {Endpoint: "o"}}}
		}
		svc.Defaults(own, func() string { return "t" })
		if diff := cmp.Diff(c.want, *svc.StorageProviders.MinIO["default"]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if c.given != nil && svc.StorageProviders.MinIO["other"].Endpoint != "o" {
			t.Errorf("%s: the other provider is gone", name)
		}
	}
}

// FuzzReadBack checks that what is stored reads back the same when it is sent again, and never holds a null list, a
// null map or a secret's value.
func FuzzReadBack(f *testing.F) {
	f.Add([]byte(`{"name":"n","image":"i","script":"s\r\n","input":[{"storage_provider":"minio","path":"/in/","prefix":[]}],"allowed_users":[" a ",""],"environment":{"secrets":{"k":"v"}},"federation":{"members":[{}]},"log_level":"debug"}`))
	f.Add([]byte(`{"name":"n","image":"i","script":"s","storage_providers":{"minio":{"default":{"endpoint":"e"}}},"annotations":{"oscar.grycap/origin-cluster":"c"},"clusters":{"a":{}},"mount":{"storage_provider":"minio","path":"b"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		first, ok := readBack(body)
		if !ok {
			return
		}
		again, ok := readBack(first)
		if !ok || !bytes.Equal(first, again) {
			t.Errorf("read back\n%s\nthen\n%s", first, again)
		}
		var svc map[string]any
		if err := json.Unmarshal(first, &svc); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"input", "output", "allowed_users", "bucket_list", "annotations", "labels", "environment"} {
			if svc[field] == nil {
				t.Errorf("%s is null in %s", field, first)
			}
		}
		environment, _ := svc["environment"].(map[string]any)
		secrets, _ := environment["secrets"].(map[string]any)
		for k, v := range secrets {
			if v != "" {
				t.Errorf("secret %q is shown", k)
			}
		}
	})
}

func readBack(body []byte) ([]byte, bool) {
	svc, err := wire.Decode(body)
	if err != nil || svc.NormalisePaths() != nil {
		return nil, false
	}
	svc.Defaults(wire.MinIOProvider{Endpoint: "http://own"}, func() string { return "t" })
	svc.DefaultGroup()
	out, err := json.Marshal(svc.Stored())
	return out, err == nil
}
