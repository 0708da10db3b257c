package oscar

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// with merges more fields into a service that is valid on its own.
func with(t *testing.T, patch string) *Service {
	t.Helper()
	const valid = `{"name":"grayifyr0","cluster_id":"a","image":"ghcr.io/grycap/imagemagick","script":"#!/bin/sh\n","cpu":"0.5","memory":"0.5Gi"}`
	merged, err := MergePatch([]byte(valid), []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(merged))
}

func members(list ...string) string {
	return `{"federation":{"members":[` + strings.Join(list, ",") + `]}}`
}

func member(cluster, service string) string {
	return fmt.Sprintf(`{"type":"oscar","cluster_id":%q,"service_name":%q}`, cluster, service)
}

func TestValidateAccepts(t *testing.T) {
	for name, patch := range map[string]string{
		"the least":             `{}`,
		"half a core":           `{"cpu":"500m","memory":"0.5Gi","total_cpu":"2","total_memory":"1e9","ephemeral_storage_request":"1G"}`,
		"three letters":         `{"name":"abc"}`,
		"39 letters":            `{"name":"a23456789012345678901234567890123456789"}`,
		"tree":                  `{"federation":{"topology":"tree"}}`,
		"types in any case":     members(`{"type":"OSCAR","cluster_id":"B_1.x","service_name":"svc"}`, `{"type":"Endpoint","url":"https://x/y"}`),
		"no type":               members(`{"cluster_id":"b","service_name":"svc"}`),
		"priority 101":          members(`{"cluster_id":"b","service_name":"svc","priority":101,"weight":0}`),
		"two on one cluster":    members(member("b", "svc1"), member("b", "svc2")),
		"two endpoints":         members(`{"type":"endpoint","url":"https://x/1"}`, `{"type":"endpoint","url":"https://x/2"}`),
		"minio without id":      `{"input":[{"storage_provider":"MinIO","path":"/in/"}],"output":[{"storage_provider":" minio.default","path":"out"}]}`,
		"defined providers":     `{"storage_providers":{"s3":{"x":{}},"webdav":{"d":{}},"rucio":{"r":{}},"onedata":{"o":{}},"minio":{"m.n":{}}},"input":[{"storage_provider":"webdav.d","path":"x"},{"storage_provider":"rucio.r","path":"X_Y"}],"output":[{"storage_provider":"s3.x","path":"a/b"},{"storage_provider":"onedata.o","path":"Z"},{"storage_provider":"minio.m.n","path":"abc/d"}]}`,
		"mount":                 `{"mount":{"storage_provider":"minio.default","path":"bucket/folder","options":"--vfs-cache-mode full"}}`,
		"workers apart":         `{"output":[{"storage_provider":"minio.default","path":"grayifyr0/out"}],"federation":{"members":[` + member("b", "svc1") + `,` + member("c", "svc2") + `]}}`,
		"own buckets":           `{"input":[{"storage_provider":"minio.default","path":"in"}],"federation":{"members":[` + member("b", "svc1") + `,` + member("b", "svc2") + `]}}`,
		"annotations":           `{"annotations":{"Example.org/A_b":"` + strings.Repeat("x", 1000) + `"},"labels":{"a/b":"C.d_e-f","empty":""}}`,
		"environment":           `{"environment":{"variables":{"A B":"x","a.b-c":"y"},"secrets":{"A.b_c-1":"z"}}}`,
		"isolation":             `{"isolation_level":"user","allowed_users":["0123456789abcdef@egi.eu"," "],"visibility":"restricted"}`,
		"volume":                `{"volume":{"size":"1Gi","mount_path":"/data","lifecycle_policy":"retain"}}`,
		"an existing volume":    `{"volume":{"name":"vol-1","mount_path":"/data"}}`,
		"kserve":                `{"kserve":{"type":"inference","storage_uri":"oci://x","inference":{"model_format":"onnx"}}}`,
		"every word":            `{"visibility":"public","federation":{"topology":"none","delegation":"load-based","deployment":"best-effort","drift":"report","group_id":"My.Group_1","rescheduler_threshold":0,"weights":{"cpu":0.5}}}`,
		"an image of interLink": `{"image":"/cvmfs/unpacked.cern.ch/Some Image","interlink_node_name":"hpc"}`,
		"an unknown log level":  `{"log_level":"LOUD"}`,
		"what OSCAR trims":      `{"allowed_users":[" a ",""],"input":[{"storage_provider":" minio ","path":" /in/ "}],"volume":{"size":" 1Gi","mount_path":" /data "}}`,
		"what OSCAR keeps":      `{"environment":{"variables":{"A":"-x","B":"{\"a\": [1]}","C":"line\n- line\n  {x}\n","D":"--x","E":"a\tb: #c","F":"?x","true":"~"}},"annotations":{"a":"*b &c"},"x_unknown":" - "}`,
		"119 members":           members(manyMembers(119)...),
		"119 and 120 endpoints": members(append(manyMembers(119), manyEndpoints(120)...)...),
	} {
		t.Run(name, func(t *testing.T) {
			if vs := Validate(with(t, patch)); len(vs) > 0 {
				t.Errorf("violations: %v", vs)
			}
		})
	}
}

func manyMembers(n int) []string {
	var out []string
	for i := range n {
		out = append(out, member(fmt.Sprintf("c%d", i), "svc"))
	}
	return out
}

func many(n int, entry string) string { return strings.TrimSuffix(strings.Repeat(entry+",", n), ",") }

func manyEndpoints(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`{"type":"endpoint","url":"https://e/%d"}`, i))
	}
	return out
}

func TestValidateRefuses(t *testing.T) {
	const long = "a234567890123456789012345678901234567890" // 40
	tests := []struct {
		patch string
		want  []Violation
	}{
		{`{"name":null}`, []Violation{{"name", "required", nil, "name is missing; give a name of 3 to 39 lower-case letters, digits and '-'"}}},
		{`{"image":" "}`, []Violation{{"image", "required", nil, "image is missing; name the container image that runs the script"}}},
		{`{"script":null}`, []Violation{{"script", "required", nil, "script is missing; give the text of the user's script"}}},
		{`{"name":"s1"}`, []Violation{{"name", "name", "s1", `name "s1" has 2 characters; MinIO refuses a bucket of fewer than 3, and a bucket may be named as the service`}}},
		{`{"name":"Bad_Name"}`, []Violation{{"name", "name", "Bad_Name", `name "Bad_Name" is refused by Kubernetes; use lower-case letters, digits and '-', a letter or digit first and last`}}},
		{`{"name":"-abc"}`, []Violation{{"name", "name", "-abc", `name "-abc" is refused by Kubernetes; use lower-case letters, digits and '-', a letter or digit first and last`}}},
		{`{"name":"` + long + `"}`, []Violation{{"name", "max_length", long, `name "` + long + `" has 40 characters; the limit of OSCAR is 39`}}},
		{`{"cluster_id":"a/b"}`, []Violation{{"cluster_id", "name", "a/b", `cluster_id "a/b" is not a name; use letters, digits, '.', '_' and '-', a letter or digit first and last`}}},
		{`{"cluster_id":"` + strings.Repeat("c", 64) + `"}`, []Violation{
			{"cluster_id", "max_length", strings.Repeat("c", 64), `cluster_id "` + strings.Repeat("c", 64) + `" has 64 characters; the limit is 63`},
		}},
		{`{"federation":{"group_id":"a b"}}`, []Violation{{"federation.group_id", "name", "a b", `group_id "a b" is not a name; use letters, digits, '.', '_' and '-', a letter or digit first and last`}}},
		{`{"federation":{"group_id":"0199c3a2-5f0e-7c31-9a44-3b1f0d8e6a21"}}`, []Violation{
			{"federation.group_id", "name", "0199c3a2-5f0e-7c31-9a44-3b1f0d8e6a21", `group_id "0199c3a2-5f0e-7c31-9a44-3b1f0d8e6a21" has the form of a uid; choose a name`},
		}},

		{`{"cpu":"lots"}`, []Violation{{"cpu", "quantity", "lots", `cpu "lots" is not a quantity; write it as Kubernetes does, as in "0.5" or "500m"`}}},
		{`{"memory":"-1Gi"}`, []Violation{{"memory", "quantity", "-1Gi", `memory "-1Gi" is negative; write it as Kubernetes does, as in "256Mi" or "0.5Gi"`}}},
		{`{"memory":"1e999999999"}`, []Violation{{"memory", "quantity", "1e999999999", `memory "1e999999999" is not a usable quantity; write it as Kubernetes does, as in "256Mi" or "0.5Gi"`}}},
		{`{"ephemeral_storage_request":"` + strings.Repeat("9", 25) + `"}`, []Violation{
			{"ephemeral_storage_request", "quantity", strings.Repeat("9", 25), `ephemeral_storage_request "` + strings.Repeat("9", 25) + `" is not a usable quantity; write it as Kubernetes does, as in "1Gi"`},
		}},

		// OSCAR keeps these so that it cannot read them, nor any list with them, or reads others.
		{`{"environment":{"variables":{"A":"- a","B":" {","C":"a\r\nb","D":"-","E":"? a"}}}`, []Violation{
			{"environment.variables.A", "read_back", "- a", `environment.variables.A "- a" begins with a single -: OSCAR would read back something else, or none of the services of its cluster; begin it otherwise`},
			{"environment.variables.B", "read_back", " {", `environment.variables.B " {" begins or ends with a blank: OSCAR would read back something else, or none of the services of its cluster; take that away`},
			{"environment.variables.C", "read_back", "a\r\nb", `environment.variables.C "a\r\nb" has a control character: OSCAR would read back something else, or none of the services of its cluster; take that away`},
			{"environment.variables.D", "read_back", "-", `environment.variables.D "-" begins with a single -: OSCAR would read back something else, or none of the services of its cluster; begin it otherwise`},
			{"environment.variables.E", "read_back", "? a", `environment.variables.E "? a" begins with a single ?: OSCAR would read back something else, or none of the services of its cluster; begin it otherwise`},
		}},
		{`{"environment":{"variables":{"A\"B":"x"}}}`, []Violation{
			{`environment.variables["A\"B"]`, "read_back", `A"B`, `key "A\"B" has a " or \: OSCAR would read back something else, or none of the services of its cluster; leave that out`},
		}},
		{`{"storage_providers":{"webdav":{"d":{"hostname":"h","password":" hunter2"}}},"kserve":{"type":"t","storage_uri":"u","args":["- a"]}}`, []Violation{
			{"storage_providers.webdav.d.password", "read_back", nil, `storage_providers.webdav.d.password begins or ends with a blank: OSCAR would read back something else, or none of the services of its cluster; take that away`},
			{"kserve.args[0]", "read_back", "- a", `kserve.args[0] "- a" begins with a single -: OSCAR would read back something else, or none of the services of its cluster; begin it otherwise`},
		}},

		{`{"federation":{"topology":"ring"}}`, []Violation{{"federation.topology", "one_of", "ring", `topology "ring" is unknown; use none, star, tree or mesh`}}},
		{`{"federation":{"delegation":"greedy"}}`, []Violation{{"federation.delegation", "one_of", "greedy", `delegation "greedy" is unknown; use static, random, load-based or topsis`}}},
		{`{"federation":{"deployment":"maybe"}}`, []Violation{{"federation.deployment", "one_of", "maybe", `deployment "maybe" is unknown; use transactional or best-effort`}}},
		{`{"federation":{"drift":"ignore"}}`, []Violation{{"federation.drift", "one_of", "ignore", `drift "ignore" is unknown; use enforce or report`}}},
		{`{"visibility":"Public"}`, []Violation{{"visibility", "one_of", "Public", `visibility "Public" is unknown; use private, public or restricted`}}},
		{`{"isolation_level":"all"}`, []Violation{{"isolation_level", "one_of", "all", `isolation_level "all" is unknown; use SERVICE or USER`}}},
		{members(`{"type":"pod","cluster_id":"b","service_name":"svc"}`), []Violation{{"federation.members[0].type", "one_of", "pod", `type "pod" is unknown; use oscar or endpoint`}}},

		{members(`{"service_name":"svc"}`), []Violation{{"federation.members[0].cluster_id", "required", nil, "federation.members[0].cluster_id is missing; name the cluster that the replica is for"}}},
		{members(`{"cluster_id":"b"}`), []Violation{
			{"federation.members[0].service_name", "required", nil, "federation.members[0].service_name is missing; give a name of 3 to 39 lower-case letters, digits and '-'"},
		}},
		{members(member("b", "SVC")), []Violation{
			{"federation.members[0].service_name", "name", "SVC", `name "SVC" is refused by Kubernetes; use lower-case letters, digits and '-', a letter or digit first and last`},
		}},
		{members(member("b", "svc"), member("c", "svc"), member("b", "svc")), []Violation{
			{"federation.members[2]", "unique", "b/svc", `"b/svc" is listed twice, first at federation.members[0]; remove one of the two`},
		}},
		{members(member("a", "grayifyr0")), []Violation{
			{"federation.members[0]", "no_self", "a/grayifyr0", `"a/grayifyr0" is the coordinator itself; a service is not a member of its own federation's list; remove the entry`},
		}},
		{members(`{"type":"endpoint"}`), []Violation{{"federation.members[0].url", "required", nil, "federation.members[0].url is missing; a member of type endpoint takes jobs at a url"}}},
		{members(`{"type":"endpoint","url":"ftp://x"}`), []Violation{{"federation.members[0].url", "type", nil, "federation.members[0].url must be an absolute url that begins with http:// or https://"}}},
		{members(`{"type":"endpoint","url":"https://u:hunter2@x/"}`), []Violation{
			{"federation.members[0].url", "type", nil, "federation.members[0].url holds a user or password, which everybody who may read the service would see; take it out of the url"},
		}},
		{members(`{"type":"endpoint","url":"https://x/1"}`, `{"type":"endpoint","url":"https://x/1"}`), []Violation{
			{"federation.members[1]", "unique", "https://x/1", `"https://x/1" is listed twice, first at federation.members[0]; remove one of the two`},
		}},
		{members(`{"cluster_id":"b","service_name":"svc","priority":-1,"weight":-2}`), []Violation{
			{"federation.members[0].priority", "type", -1, "priority -1 is negative; use 0 or more"},
			{"federation.members[0].weight", "type", -2, "weight -2 is negative; use 0 or more"},
		}},
		{members(`{"type":"endpoint","url":"https://x","headers":{"a b":"hunter2","X":"hunter2\n"}}`), []Violation{
			{`federation.members[0].headers.X`, "type", nil, `the value of header "X" holds a character that HTTP forbids, as a line break`},
			{`federation.members[0].headers["a b"]`, "name", "a b", `"a b" is not the name of an HTTP header`},
		}},
		{members(manyMembers(120)...), []Violation{{"federation.members", "max_members", 121, "the federation has 121 replicas, the coordinator included; the limit is 120; make two federations of it"}}},
		{members(manyEndpoints(121)...), []Violation{{"federation.members", "max_members", 121, "the federation has 121 members of type endpoint; the limit is 120"}}},
		{`{"federation":{"rescheduler_threshold":-5,"weights":{"cpu":-0.5}}}`, []Violation{
			{"federation.rescheduler_threshold", "type", -5, "rescheduler_threshold -5 is negative; use 0 or more"},
			{"federation.weights.cpu", "type", -0.5, "cpu -0.5 is negative; use 0 or more"},
		}},
		{`{"federation":{"delegation":"topsis","weights":{"cpu":1,"speed":2}}}`, []Violation{
			{"federation.weights.speed", "one_of", "speed", `criterion "speed" is unknown; use latency, nodes, memory, cpu, duration or pending`},
		}},
		{`{"federation":{"delegation":"random","weights":{"gone":1,"b/svc":0,"b/SVC":1,"b/":2,"https://x":3}}}`, []Violation{
			{`federation.weights["b/"]`, "name", "b/", `"b/" names no place; use a cluster_id, or cluster_id/service_name`},
			{`federation.weights["b/SVC"]`, "name", "b/SVC", `"b/SVC" names no place; use a cluster_id, or cluster_id/service_name`},
			{`federation.weights["https://x"]`, "name", "https://x", `"https://x" names no place; use a cluster_id, or cluster_id/service_name`}}},
		{`{"federation":{"weights":{"cpu":1e300}}}`, []Violation{{"federation.weights.cpu", "type", 1e300, "the weight 1e+300 is too large; the limit is 1000000000"}}},
		{members(`{"cluster_id":"b","service_name":"svc","weight":1000000001}`), []Violation{
			{"federation.members[0].weight", "type", 1000000001, "the weight 1000000001 is too large; the limit is 1000000000"},
		}},

		{`{"output":[{"storage_provider":"minio.shared","path":"a-b/c"}]}`, []Violation{
			{"output[0].storage_provider", "defined_provider", "minio.shared", `storage provider "minio.shared" is not defined; define storage_providers.minio.shared, or use minio.default`},
		}},
		{`{"input":[{"path":"abc/in"}]}`, []Violation{{"input[0].storage_provider", "required", nil, "input[0].storage_provider is missing; use minio.default for the cluster's own MinIO"}}},
		{`{"input":[{"storage_provider":"s3.x","path":"abc/in"}]}`, []Violation{
			{"input[0].storage_provider", "one_of", "s3.x", `storage provider "s3.x" cannot be used for input; use minio, webdav or rucio, with .<id>`},
		}},
		{`{"input":[{"storage_provider":"minio.default","path":" / "}]}`, []Violation{{"input[0].path", "required", nil, "input[0].path is missing; give <bucket>/<folder>"}}},
		{`{"output":[{"storage_provider":"minio.default","path":"My_Bucket/out"}]}`, []Violation{
			{"output[0].path", "name", "My_Bucket/out", `bucket "My_Bucket" is refused by MinIO; use 3 to 63 lower-case letters, digits, '-' and '.'`},
		}},
		{`{"output":[{"storage_provider":"minio.default","path":"192.168.0.1/out"}]}`, []Violation{
			{"output[0].path", "name", "192.168.0.1/out", `bucket "192.168.0.1" is refused by MinIO; use 3 to 63 lower-case letters, digits, '-' and '.'`},
		}},
		{`{"mount":{"storage_provider":"rucio.x","path":"ab","options":"; rm"}}`, []Violation{
			{"mount.storage_provider", "one_of", "rucio.x", `storage provider "rucio.x" cannot be used for mount; use minio, s3 or webdav, with .<id>`},
			{"mount.options", "name", "; rm", `mount.options "; rm" is refused by OSCAR; use letters, digits, blanks and - _ . : = , /`},
		}},
		{`{"storage_providers":{"minio":{"m":{"endpoint":"https://k:hunter2@m"}}}}`, []Violation{
			{"storage_providers.minio.m.endpoint", "type", nil, "storage_providers.minio.m.endpoint holds a user or password, which everybody who may read the service would see; take it out of the url"},
		}},
		{`{"clusters":{"b.c":{"endpoint":"https://k:hunter2@m"}}}`, []Violation{
			{`clusters["b.c"].endpoint`, "type", nil, `clusters["b.c"].endpoint holds a user or password, which everybody who may read the service would see; take it out of the url`},
		}},

		{`{"output":[{"storage_provider":"minio.default","path":"grayifyr0/out"}],"federation":{"members":[` + member("a", "svc1") + `]}}`, []Violation{
			{"federation.members[0].cluster_id", "shared_bucket", "a", `"svc1" and "grayifyr0" would share bucket "grayifyr0" on cluster "a", and deleting one would empty it for the other; put them on different clusters, or give paths without a bucket`},
		}},
		{`{"output":[{"storage_provider":"minio.default","path":"out"}],"federation":{"members":[` + member("b", "svc1") + `,` + member("b", "svc2") + `]}}`, []Violation{
			{"federation.members[1].cluster_id", "shared_bucket", "b", `"svc2" and "svc1" would share bucket "grayifyr0" on cluster "b", and deleting one would empty it for the other; put them on different clusters, or give paths without a bucket`},
		}},

		{`{"input":[` + many(101, `{"storage_provider":"minio","path":"in"}`) + `]}`, []Violation{{"input", "max_length", 101, "input has 101 entries; the limit is 100"}}},
		{`{"output":[` + many(101, `{"storage_provider":"minio","path":"in"}`) + `],"federation":{"members":[` + member("a", "svc") + `]}}`, []Violation{
			{"output", "max_length", 101, "output has 101 entries; the limit is 100"},
		}},
		{`{"allowed_users":[` + many(1001, `"u"`) + `]}`, []Violation{{"allowed_users", "max_length", 1001, "allowed_users has 1001 entries; the limit is 1000"}}},

		{`{"annotations":{"a b":"c"}}`, []Violation{
			{`annotations["a b"]`, "name", "a b", `the annotation "a b" is refused by Kubernetes: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`},
		}},
		{`{"annotations":{"a":"` + strings.Repeat("x", MaxAnnotationsBytes) + `"}}`, []Violation{
			{"annotations", "max_bytes", MaxAnnotationsBytes + 1, "the annotations have 245761 bytes; the limit is 245760, or Kubernetes would refuse every job"},
		}},
		{`{"labels":{"a":"x y"}}`, []Violation{
			{"labels.a", "name", "x y", `the value "x y" of label "a" is refused by Kubernetes: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
		}},
		{`{"environment":{"variables":{"a=b":"x"}}}`, []Violation{
			{`environment.variables["a=b"]`, "name", "a=b", `the name of the variable "a=b" is refused by Kubernetes: a valid environment variable name must consist only of printable ASCII characters other than '='`},
		}},
		{`{"environment":{"secrets":{"a b":"hunter2"}}}`, []Violation{
			{`environment.secrets["a b"]`, "name", "a b", `the name of the secret "a b" is refused by Kubernetes: use letters, digits, '-', '_' and '.'`},
		}},
		{`{"isolation_level":"USER","allowed_users":["me"]}`, []Violation{
			{"allowed_users[0]", "name", "me", `user "me" has fewer than 10 characters, from which OSCAR names his bucket under isolation_level USER; give the full user id`},
		}},
		{`{"volume":{"mount_path":"data"}}`, []Violation{
			{"volume.mount_path", "name", "data", `volume.mount_path "data" is not absolute; begin it with /`},
			{"volume.name", "required", nil, "volume.name is missing; name an existing volume, or give volume.size to make one"},
		}},
		{`{"volume":{"name":"A","size":"x","lifecycle_policy":"keep"}}`, []Violation{
			{"volume.mount_path", "required", nil, "volume.mount_path is missing; give an absolute path inside the container"},
			{"volume.name", "name", "A", `volume.name "A" is refused by Kubernetes; use lower-case letters, digits and '-'`},
			{"volume.size", "quantity", "x", `volume.size "x" is not a quantity; write it as Kubernetes does, as in "1Gi"`},
			{"volume.lifecycle_policy", "one_of", "keep", `lifecycle_policy "keep" is unknown; use delete or retain`},
		}},
		{`{"image":"My Image:1"}`, []Violation{
			{"image", "name", "My Image:1", `image "My Image:1" is none that Kubernetes can pull; write it as in ghcr.io/grycap/imagemagick:7.1, its name in lower case`},
		}},
		{`{"kserve":{"inference":{}}}`, []Violation{
			{"kserve.type", "required", nil, "kserve.type is missing; OSCAR refuses a kserve block without it"},
			{"kserve.storage_uri", "required", nil, "kserve.storage_uri is missing; OSCAR refuses a kserve block without it"},
			{"kserve.inference.model_format", "required", nil, "kserve.inference.model_format is missing; OSCAR refuses a kserve block without it"},
		}},
		{`{"script":"` + strings.Repeat("x", MaxScriptBytes+1) + `"}`, []Violation{
			{"script", "max_bytes", MaxScriptBytes + 1, "the script has 524289 bytes; the limit is 524288; put large files into the image or the input bucket"},
		}},
	}
	for _, tc := range tests {
		t.Run(tc.want[0].Path+" "+tc.want[0].Rule, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Validate(with(t, tc.patch))); diff != "" {
				t.Errorf("%.200s (-want +got):\n%s", tc.patch, diff)
			}
		})
	}
}

func TestAllViolationsInOneAnswer(t *testing.T) {
	s := parse(t, `{"name":"X","cpu":"lots","memory":"1Gi","visibility":"all","cluster_id":"a","labels":{"a":"b c"},`+
		`"input":[{"storage_provider":"minio.shared","path":"ab/c"}],"federation":{"topology":"ring","group_id":"`+strings.Repeat("g", 64)+`","members":[`+
		member("a", "svc")+`,`+member("a", "svc")+`,{"type":"endpoint"}]}}`)
	want := []string{"name name", "image required", "script required", "cpu quantity", "visibility one_of", "labels.a name",
		"input[0].storage_provider defined_provider", "input[0].path name", "federation.group_id max_length", "federation.topology one_of",
		"federation.members[2].url required", "federation.members[1] unique", "federation.members[0].cluster_id shared_bucket"}
	if diff := cmp.Diff(sorted(want), sorted(rules(Validate(s)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestValidateOfNothing(t *testing.T) {
	if vs := Validate(nil); len(vs) != 1 || vs[0].Rule != RuleRequired {
		t.Errorf("%v", vs)
	}
}

func TestAServiceBeyondTheLimitByItsParts(t *testing.T) {
	s := with(t, `{}`)
	s.Script = strings.Repeat("x", MaxScriptBytes)
	s.Annotations = map[string]string{"a": strings.Repeat("x", MaxAnnotationsBytes-1)}
	s.Environment.Variables = map[string]string{"A": strings.Repeat("x", maxValueBytes), "B": strings.Repeat("x", maxValueBytes), "C": strings.Repeat("x", maxValueBytes)}
	vs := Validate(s)
	if len(vs) != 1 || vs[0].Path != "" || vs[0].Rule != RuleMaxBytes {
		t.Errorf("%v", rules(vs))
	}
}

func TestIdentifiers(t *testing.T) {
	for id, want := range map[string]bool{
		"a": true, "oscar-cluster-a": true, "A.b_c-9": true, strings.Repeat("a", 63): true,
		"": false, "a/b": false, "-a": false, "a.": false, "a b": false, "ä": false, "a\n": false, "..": false, strings.Repeat("a", 64): false,
	} {
		if got := ValidClusterID(id); got != want {
			t.Errorf("ValidClusterID(%q) = %v", id, got)
		}
	}
	if ValidGroupID("0199c3a2-5f0e-7c31-9a44-3b1f0d8e6a21") || !ValidGroupID("g") || ValidGroupID("a/b") {
		t.Error("ValidGroupID")
	}
	if !ValidServiceName("abc") || ValidServiceName("ab") || ValidServiceName("Abc") || ValidServiceName(strings.Repeat("a", 40)) {
		t.Error("ValidServiceName")
	}
}

func TestACoordinatorWithoutAClusterIsComparedWithNobody(t *testing.T) {
	vs := ValidateMembers("replicas", Member{ServiceName: "svc"}, []Member{{ServiceName: "svc"}})
	if diff := cmp.Diff([]string{"replicas[0].cluster_id required"}, rules(vs)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
