package oscar

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parseFDL(t *testing.T, data string) *FDL {
	t.Helper()
	fdl, violations := ParseFDL([]byte(data))
	if len(violations) > 0 {
		t.Fatalf("ParseFDL: %v", violations)
	}
	return fdl
}

func TestTheExampleIsValid(t *testing.T) {
	data, err := os.ReadFile("../../examples/grayify/grayify.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fdl := parseFDL(t, string(data))
	f := fdl.Functions[0]
	if len(fdl.Functions) != 1 || f.Cluster != "oscar-cluster-a" || !f.ClusterKey || f.Path != "functions.oscar[0].oscar-cluster-a" {
		t.Fatalf("%+v", fdl.Functions)
	}
	want := `{"name":"grayifyr0","cluster_id":"oscar-cluster-a","image":"ghcr.io/grycap/imagemagick","cpu":"0.5","memory":"0.5Gi","script":"script.sh",` +
		`"federation":{"topology":"mesh","delegation":"random","members":[{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"grayifyr1"},{"type":"oscar","cluster_id":"oscar-cluster-c","service_name":"grayifyr2"}]},` +
		`"input":[{"storage_provider":"minio.default","path":"grayifyr0/in"}],"output":[{"storage_provider":"minio.default","path":"grayifyr0/out"}]}`
	if got := text(t, f.Service); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if vs := Validate(f.Service); len(vs) > 0 {
		t.Errorf("violations: %v", vs)
	}
}

// The form of OSCAR's quickstart: no cluster key, and a provider of the file.
const quickstart = `
functions:
  oscar:
    - name: grayifyr0
      image: ghcr.io/grycap/imagemagick
      cpu: "0.5"
      memory: 0.5Gi
      script: script.sh
      federation:
        topology: mesh
        delegation: random
        members:
          - type: oscar
            cluster_id: oscar-cluster-a
            service_name: grayifyr1
      input:
        - storage_provider: minio.default
          path: grayifyr0/in
      output:
        - storage_provider: minio.shared
          path: grayifyr0/out
`

func TestTheQuickstartsForm(t *testing.T) {
	f := parseFDL(t, quickstart).Functions[0]
	if f.ClusterKey || f.Cluster != "" || f.Service.ClusterID != "" || f.Path != "functions.oscar[0]" {
		t.Errorf("%+v", f)
	}
	if diff := cmp.Diff([]string{"output[0].storage_provider defined_provider"}, rules(Validate(f.Service))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f = parseFDL(t, quickstart+"storage_providers:\n  minio:\n    shared: {endpoint: https://m, verify: true, access_key: 007, secret_key: k}\n").Functions[0]
	if vs := Validate(f.Service); len(vs) > 0 {
		t.Errorf("violations: %v", vs)
	}
	if m := f.Service.StorageProviders.MinIO["shared"]; m.AccessKey != "007" || !m.Verify {
		t.Errorf("provider %+v", m)
	}
	f = parseFDL(t, strings.Replace(quickstart, "      cpu", "      cluster_id: here\n      cpu", 1)).Functions[0]
	if f.Cluster != "here" || f.ClusterKey {
		t.Errorf("cluster_id is not taken: %+v", f)
	}
}

func TestFDLForms(t *testing.T) {
	fdl := parseFDL(t, `
Functions:
  OSCAR:
  - a: {name: svc1, cluster_id: ignored}
    b: {name: svc2, storage_providers: {minio: {shared: {endpoint: own}}}, clusters: {x: {endpoint: own}}}
  - default-cluster: {name: svc3, cluster_id: c}
  - name: {name: svc4}
  - name: svc5
    cluster_id: d
clusters: {x: {endpoint: common, new: 1}, y: {endpoint: common}}
storage_providers: {minio: {shared: {endpoint: common}, other: {endpoint: common}}, azure: {k: {z: 1}}}
`)
	got := []string{}
	for _, f := range fdl.Functions {
		got = append(got, fmt.Sprintf("%s %s %v %s %s %s", f.Path, f.Cluster, f.ClusterKey, f.Service.Name, f.Service.ClusterID, f.Service.Clusters["x"].Endpoint+f.Service.StorageProviders.MinIO["shared"].Endpoint))
	}
	want := []string{
		"functions.oscar[0].a a true svc1 a commoncommon",
		"functions.oscar[0].b b true svc2 b ownown",
		"functions.oscar[1].default-cluster c false svc3 c commoncommon",
		"functions.oscar[2].name name true svc4 name commoncommon",
		"functions.oscar[3] d false svc5 d commoncommon",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	first, second := fdl.Functions[0].Service, fdl.Functions[1].Service
	if len(second.StorageProviders.MinIO) != 2 || len(second.Clusters) != 2 || string(second.StorageProviders.Extra["azure"]) != `{"k":{"z":1}}` {
		t.Errorf("what the file shares is not in %+v", second.StorageProviders)
	}
	first.StorageProviders.MinIO["shared"] = MinIOProvider{Endpoint: "changed"}
	first.Clusters["x"].Extra["new"][0] = '9'
	if fdl.StorageProviders.MinIO["shared"].Endpoint != "common" || string(fdl.Clusters["x"].Extra["new"]) != "1" {
		t.Error("services share what the file defines")
	}
}

func TestYAMLWords(t *testing.T) {
	f := parseFDL(t, `
functions:
  oscar:
  - name: svc
    cpu: 1
    memory: 0x10
    alpine: True
    total_cpu: ~
    labels: {n: 0123, t: true, f: 1.50, d: 2020-01-01, e: , q: "5", inf: .inf, z: 1_000}
    environment: {variables: &v {A: x, B: y}, secrets: {<<: *v, B: z}}
    annotations: {<<: [{a: 1}, {a: 2, b: 2}]}
    image_prefetch: false
    expose: {api_port: 80, min_scale: 0x2}
    new: {hex: 0x10, half: .5, n: null, list: [1, *v]}
`).Functions[0].Service
	want := `{"name":"svc","cpu":"1","memory":"0x10","alpine":true,"expose":{"min_scale":2,"api_port":[80]},` +
		`"environment":{"variables":{"A":"x","B":"y"},"secrets":{"A":"x","B":"z"}},"annotations":{"a":"1","b":"2"},` +
		`"labels":{"d":"2020-01-01","e":"","f":"1.50","inf":".inf","n":"0123","q":"5","t":"true","z":"1_000"},` +
		`"new":{"hex":16,"half":0.5,"n":null,"list":[1,{"A":"x","B":"y"}]}}`
	if got := text(t, f); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestNumbersOfKServeAreTextWhereOSCARWantsIt: it refuses the service otherwise.
func TestNumbersOfKServeAreTextWhereOSCARWantsIt(t *testing.T) {
	f := parseFDL(t, `
functions:
  oscar:
  - name: svc
    kserve:
      type: inference
      storage_uri: s3://m
      inference: {model_format: onnx, runtime: 2}
      CPU: 0.5
      memory: 0x10
      min_scale: 1
      max_scale: 2
      enable_gpu: true
      set_auth: false
      args: [--port, 8080, true]
      env: {PORT: 8080, DEBUG: True, NONE: ~}
      new: 1
`).Functions[0].Service
	want := `{"name":"svc","kserve":{"type":"inference","storage_uri":"s3://m","inference":{"model_format":"onnx","runtime":"2"},"CPU":"0.5",` +
		`"args":["--port","8080","true"],"enable_gpu":true,"env":{"PORT":"8080","DEBUG":"true","NONE":null},"max_scale":2,"memory":"0x10","min_scale":1,` +
		`"new":1,"set_auth":false}}`
	if got := text(t, f); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFDLViolations(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
		message  string
	}{
		{"empty", "", []string{"type"}, "it is empty"},
		{"only a comment", "# nothing\n", []string{"type"}, "it is empty"},
		{"a list", "- a\n", []string{"type"}, "not an array"},
		{"no functions", "storage_providers: {}\n", []string{"functions required"}, "functions.oscar"},
		{"functions of another kind", "functions: {aws: []}\n", []string{"functions.oscar required"}, "at least one"},
		{"an empty list", "functions: {oscar: []}\n", []string{"functions.oscar required"}, "at least one"},
		{"a mapping for the list", "functions: {oscar: {a: {name: x}}}\n", []string{"functions.oscar type"}, "begin each service with '- '"},
		{"functions as a list", "functions: [1]\n", []string{"functions type"}, "must be a mapping"},
		{"entries that are none", "functions: {oscar: [5, {}, {a: 1, b: {name: x}}]}\n", []string{"functions.oscar[0] type", "functions.oscar[1] required", "functions.oscar[2].a type"}, "not a number"},
		{"wrong types everywhere", "functions: {oscar: [{a.b: {name: [x], alpine: 5}}]}\nclusters: []\nstorage_providers: {minio: 7}\n",
			[]string{"storage_providers.minio type", "clusters type", `functions.oscar[0]["a.b"].name type`, `functions.oscar[0]["a.b"].alpine type`}, "must be an object"},
		{"tabs", "functions:\n\toscar: []\n", []string{"type"}, "line 2: found character that cannot start any token; YAML is indented with spaces"},
		{"two documents", "functions: {oscar: [{name: x}]}\n---\na: 1\n", []string{"type"}, "second document"},
		{"a key twice", "functions:\n  oscar: []\n  oscar: []\n", []string{"unique"}, `line 3: key "oscar" is given twice`},
		{"a key that is a list", "? [a]\n: b\n", []string{"type"}, "a key must be a word"},
		{"an unknown alias", "a: *b\n", []string{"type"}, "unknown anchor"},
		{"an alias of itself", "a: &a [*a]\n", []string{"type"}, ""},
		{"a merge of a word", "a: {<<: 5}\n", []string{"type"}, "<< takes a mapping"},
		{"deep", strings.Repeat("[", 150) + strings.Repeat("]", 150), []string{"type"}, "deeper than 100"},
		{"very deep", strings.Repeat("[", 900_000), []string{"type"}, ""},
		{"large", strings.Repeat("#", MaxServiceBytes+1), []string{"max_bytes"}, "the limit is 1048576 bytes"},
		{"aliases that multiply", bomb(), []string{"max_bytes"}, "50000 values, aliases expanded"},
		{"aliases of a long text", "a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n", []string{"max_bytes"}, "bytes, aliases expanded"},
		{"aliases of a long key", "a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("{*a : 1},", 1000) + "]\n", []string{"max_bytes"}, "bytes, aliases expanded"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, violations := ParseFDL([]byte(tc.in))
			if diff := cmp.Diff(tc.want, rules(violations)); diff != "" {
				t.Fatalf("(-want +got):\n%s\n%.300v", diff, violations)
			}
			if !strings.Contains(violations[0].Message, tc.message) {
				t.Errorf("message %q does not hold %q", violations[0].Message, tc.message)
			}
		})
	}
}

// bomb is a document of half a kilobyte that stands for 10^9 values.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	return b.String()
}

func TestWrongTypesOfAnFDLAreNotReportedAgain(t *testing.T) {
	fdl, violations := ParseFDL([]byte("functions: {oscar: [{a: {name: [x], image: i, script: s, output: [{storage_provider: minio.m, path: abc/d}]}}]}\nstorage_providers: {minio: 7}\n"))
	if len(violations) != 2 {
		t.Fatalf("%v", violations)
	}
	if vs := Validate(fdl.Functions[0].Service); len(vs) > 0 {
		t.Errorf("what follows from a wrong type is reported: %v", vs)
	}
}

func TestAScriptIsAPathUnlessItIsABlockOrHasSeveralLines(t *testing.T) {
	for script, file := range map[string]string{
		"script.sh": "script.sh", `"/a b.sh"`: "/a b.sh", "1": "1", "*anchor": "anchor.sh",
		`"echo\n"`: "", "|-\n        script.sh": "", ">-\n        script.sh": "", "null": "", "*block": "",
	} {
		fdl := parseFDL(t, "texts:\n- &anchor anchor.sh\n- &block |-\n  anchor.sh\nfunctions:\n  oscar:\n  - a:\n      name: x\n      Script: "+script+"\n  - name: y\n    script: "+script+"\n")
		for _, f := range fdl.Functions {
			if f.ScriptFile != file {
				t.Errorf("%s of %s names the file %q", script, f.Path, f.ScriptFile)
			}
		}
	}
}
