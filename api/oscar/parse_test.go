package oscar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parse reads a service that must be readable.
func parse(t *testing.T, data string) *Service {
	t.Helper()
	s, violations := ParseService([]byte(data))
	if len(violations) > 0 {
		t.Fatalf("ParseService(%s): %v", data, violations)
	}
	return s
}

// text writes a service.
func text(t *testing.T, v json.Marshaler) string {
	t.Helper()
	out, err := v.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// rules renders violations as "path rule" lines.
func rules(vs []Violation) []string {
	out := []string{}
	for _, v := range vs {
		out = append(out, strings.TrimSpace(v.Path+" "+v.Rule))
	}
	return out
}

func TestUnknownFieldsAtEveryLevelAreWrittenBack(t *testing.T) {
	in := `{"name":"svc","image":"i","script":"echo \"<a>&\"","federation":{"group_id":"g","topology":"star","members":[` +
		`{"type":"oscar","cluster_id":"b","service_name":"svc","m":{"deep":[1,{"n":null}]}}],"f":1.50},` +
		`"expose":{"api_port":[80],"e":"x"},"environment":{"variables":{"A":"b"},"v":[]},` +
		`"input":[{"storage_provider":"minio.default","path":"a/b","i":12345678901234567890123}],` +
		`"storage_providers":{"minio":{"m":{"endpoint":"http://m","p":true}},"azure":{"d":{"container":"c"}}},` +
		`"clusters":{"b":{"endpoint":"https://b","c":0}},"mount":{"storage_provider":"minio","path":"x","o":1},` +
		`"volume":{"size":"1Gi","mount_path":"/d","w":1},"kserve":{"type":"inference","storage_uri":"oci://x","inference":{"model_format":"onnx","y":1},"cpu":"2"},` +
		`"a_new":{"z":1,"a":2},"z_new":"e\u0301"}`
	s := parse(t, in)
	want := strings.ReplaceAll(in, `\u0301`, "\u0301")
	if diff := cmp.Diff(want, text(t, s)); diff != "" {
		t.Errorf("written back differently (-want +got):\n%s", diff)
	}
	if again := parse(t, text(t, s)); text(t, again) != want {
		t.Errorf("second round trip differs: %s", text(t, again))
	}
}

func TestKeysInAnyCase(t *testing.T) {
	s := parse(t, `{"NAME":"svc","Image":"i","Cluster_ID":"a","environment":{"Variables":{"KeyCase":"kept"}},"LABELS":{"Aa":"b"},"NodePort":1,"expose":{"NodePort":7}}`)
	want := `{"name":"svc","cluster_id":"a","image":"i","expose":{"nodePort":[7]},"environment":{"variables":{"KeyCase":"kept"}},"labels":{"Aa":"b"},"NodePort":1}`
	if got := text(t, s); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A key in its exact form must win, or a namespace could be smuggled past what
// clears it.
func TestExactKeyWinsWhereverItStands(t *testing.T) {
	for _, in := range []string{`{"name":"exact","NAME":"other"}`, `{"NAME":"other","name":"exact"}`} {
		if s := parse(t, in); s.Name != "exact" || len(s.Extra) != 0 {
			t.Errorf("%s: name %q, extra %v", in, s.Name, s.Extra)
		}
	}
	if s := parse(t, `{"namespace":"one","name\u017fpace":"kube-system"}`); s.Namespace != "one" || len(s.Extra) != 0 {
		t.Errorf("a folded key was kept beside the typed one: %q, %v", s.Namespace, s.Extra)
	}
}

func TestZeroScalarsAreNotWrittenAndEmptyListsAre(t *testing.T) {
	s := parse(t, `{"name":"svc","cpu":"","alpine":false,"input":[],"output":null,"labels":{},"federation":{"members":[]},"log_level":null}`)
	want := `{"name":"svc","federation":{"members":[]},"labels":{},"input":[]}`
	if got := text(t, s); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestPorts(t *testing.T) {
	for in, want := range map[string]string{
		`0`: `{"name":"svc"}`, `[0]`: `{"name":"svc"}`, `[]`: `{"name":"svc"}`, `null`: `{"name":"svc"}`,
		`80`: `{"name":"svc","expose":{"nodePort":[80]}}`, `[80,0,81]`: `{"name":"svc","expose":{"nodePort":[80,81]}}`,
	} {
		if got := text(t, parse(t, `{"name":"svc","expose":{"nodePort":`+in+`}}`)); got != want {
			t.Errorf("nodePort %s: got %s, want %s", in, got, want)
		}
	}
}

func TestV3Federation(t *testing.T) {
	tests := []struct {
		name, in, want string
		violations     []string
	}{
		{"replicas become members of a star",
			`{"name":"svc","replicas":[{"type":"oscar","cluster_id":"b","service_name":"svc"}],"delegation":"random","rescheduler_threshold":30}`,
			`{"name":"svc","federation":{"topology":"star","delegation":"random","rescheduler_threshold":30,"members":[{"type":"oscar","cluster_id":"b","service_name":"svc"}]}}`, nil},
		{"the topology that is given stays",
			`{"name":"svc","federation":{"topology":"mesh"},"Replicas":[{"cluster_id":"b","service_name":"svc"}]}`,
			`{"name":"svc","federation":{"topology":"mesh","members":[{"cluster_id":"b","service_name":"svc"}]}}`, nil},
		{"what oscar-cli always sends makes no federation",
			`{"name":"svc","replicas":null,"delegation":"static","rescheduler_threshold":0}`, `{"name":"svc"}`, nil},
		{"empty replicas are a federation without members",
			`{"name":"svc","replicas":[],"delegation":"static","rescheduler_threshold":0}`, `{"name":"svc","federation":{"delegation":"static"}}`, nil},
		{"a policy alone is kept",
			`{"name":"svc","delegation":"topsis"}`, `{"name":"svc","federation":{"delegation":"topsis"}}`, nil},
		{"the federation's own words win",
			`{"name":"svc","delegation":"random","rescheduler_threshold":5,"federation":{"delegation":"static","rescheduler_threshold":9}}`,
			`{"name":"svc","federation":{"delegation":"static","rescheduler_threshold":9}}`, nil},
		{"members given twice",
			`{"name":"svc","replicas":[{"cluster_id":"b","service_name":"svc"}],"federation":{"members":[{"cluster_id":"c","service_name":"svc"}]}}`,
			`{"name":"svc","federation":{"members":[{"cluster_id":"c","service_name":"svc"}]}}`, []string{"replicas unique"}},
		{"wrong types have the path that was submitted",
			`{"name":"svc","replicas":[{"priority":"high"}],"delegation":5}`,
			`{"name":"svc","federation":{"topology":"star","members":[{}]}}`, []string{"replicas[0].priority type", "delegation type"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s, violations := ParseService([]byte(tc.in))
			if diff := cmp.Diff(append([]string{}, tc.violations...), rules(violations)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
			if got := text(t, s); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestViolationsOfAV3ServiceNameWhatWasSubmitted(t *testing.T) {
	s := parse(t, `{"name":"svc","image":"i","script":"s","cluster_id":"a","delegation":"magic","rescheduler_threshold":-1,"replicas":[{"cluster_id":"a","service_name":"svc"}]}`)
	want := []string{"delegation one_of", "rescheduler_threshold type", "replicas[0] no_self"}
	if diff := cmp.Diff(want, rules(Validate(s))); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

func TestWrongTypesAreReportedAllAtOnceAndOnlyOnce(t *testing.T) {
	in := `{"name":5,"image":["i"],"script":"s","cpu":1,"alpine":"yes","input":{},"output":[{"path":{}},7],"labels":{"a":true},` +
		`"environment":{"secrets":{"pw":1234}},"storage_providers":{"minio":{"m":{"access_key":99}}},"federation":{"members":[{"priority":1.5,"ssl_verify":"x"}]},` +
		`"synchronous":{"min_scale":99999999999}}`
	s, violations := ParseService([]byte(in))
	want := []string{"name type", "image type", "cpu type", "alpine type", "input type", "output[0].path type", "output[1] type", "labels.a type",
		"environment.secrets.pw type", "storage_providers.minio.m.access_key type", "federation.members[0].priority type",
		"federation.members[0].ssl_verify type", "synchronous.min_scale type"}
	got := rules(violations)
	if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	for _, v := range violations {
		if strings.Contains(v.Path, "secrets") || strings.Contains(v.Path, "access_key") {
			if v.Value != nil || strings.Contains(v.Message, "1234") || strings.Contains(v.Message, "99") {
				t.Errorf("a secret is echoed: %+v", v)
			}
		}
	}
	if violations[2].Message != `cpu must be a string, not a number; write it in quotes` {
		t.Errorf("message %q", violations[2].Message)
	}
	// What follows from a wrong type is not said again: no missing name or image.
	for _, v := range Validate(s) {
		if v.Path == "name" || v.Path == "image" || strings.HasPrefix(v.Path, "output[0].path") {
			t.Errorf("reported twice: %+v", v)
		}
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func TestWhatCannotBeReadIsOneViolation(t *testing.T) {
	tests := []struct{ name, in, rule, message string }{
		{"empty", ``, RuleType, "unexpected end"},
		{"truncated", `{"name":"sv`, RuleType, "at byte 11"},
		{"trailing text", `{"name":"svc"} x`, RuleType, "at byte 16"},
		{"array", `[]`, RuleType, "must be an object, not an array"},
		{"null", `null`, RuleType, "not null"},
		{"deep", strings.Repeat(`{"a":`, MaxDepth+1) + "1" + strings.Repeat("}", MaxDepth+1), RuleType, "deeper than 100"},
		{"very deep", strings.Repeat("[", 500_000), RuleType, "not valid JSON"},
		{"dense", `{"a":[` + strings.Repeat("0,", 60_000) + `0]}`, RuleMaxBytes, "more than 50000 values"},
		{"large", `{"script":"` + strings.Repeat("x", MaxServiceBytes) + `"}`, RuleMaxBytes, "the limit is 1048576 bytes"},
		{"not UTF-8", "{\"name\":\"\xff\"}", RuleType, "not UTF-8"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s, violations := ParseService([]byte(tc.in))
			if s != nil || len(violations) != 1 || violations[0].Rule != tc.rule || !strings.Contains(violations[0].Message, tc.message) {
				t.Errorf("service %v, violations %v; want one of rule %s with %q", s != nil, violations, tc.rule, tc.message)
			}
		})
	}
	deep := strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth)
	if _, violations := ParseService([]byte(deep)); len(violations) > 0 {
		t.Errorf("a depth of %d is the limit and was refused: %v", MaxDepth, violations)
	}
}

func TestALongListOfViolationsIsCut(t *testing.T) {
	in := `{"labels":{`
	for i := range 300 {
		in += fmt.Sprintf(`"k%d":1,`, i)
	}
	_, violations := ParseService([]byte(strings.TrimSuffix(in, ",") + "}}"))
	if len(violations) != maxViolations+1 || violations[maxViolations].Message != "200 more violations are not shown" {
		t.Errorf("%d violations, the last is %+v", len(violations), violations[len(violations)-1])
	}
}

// TestViolationsOfALongKeyAreShort: each of them names it, in its path and in its message.
func TestViolationsOfALongKeyAreShort(t *testing.T) {
	for name, in := range map[string]string{
		"a provider": `{"storage_providers":{"s3":{"KEY":{"access_key":1,"secret_key":2,"region":3}}}}`,
		"a cluster":  `{"clusters":{"KEY":{"endpoint":1,"auth_user":2,"ssl_verify":"x"}}}`,
		"unknown":    `{"name":"svc","KEY":1}`,
	} {
		s, violations := ParseService([]byte(strings.Replace(in, "KEY", strings.Repeat("k", MaxServiceBytes-1000), 1)))
		violations = append(violations, Validate(s)...)
		if len(violations) == 0 {
			t.Errorf("%s: it is accepted", name)
		}
		for _, v := range violations {
			if len(v.Path) > 2100 || len(v.Message) > 2100 {
				t.Errorf("%s: a path of %d bytes, a message of %d", name, len(v.Path), len(v.Message))
			}
		}
	}
}

func TestTakeRefreshToken(t *testing.T) {
	for in, want := range map[string]string{
		`{"environment":{"secrets":{"refresh_token":" one ","k":"v"}}}`:                         "one",
		`{"secrets":{"refresh_token":"two"}}`:                                                   "two",
		`{"environment":{"secrets":{"refresh_token":"one"}},"secrets":{"refresh_token":"two"}}`: "one",
		`{"environment":{"secrets":{"refresh_token":""}},"secrets":{"refresh_token":"two"}}`:    "two",
		`{"name":"svc"}`: "",
	} {
		s := parse(t, in)
		if got := s.TakeRefreshToken(); got != want {
			t.Errorf("%s: token %q, want %q", in, got, want)
		}
		if left := text(t, s); strings.Contains(left, "refresh_token") {
			t.Errorf("%s: left in %s", in, left)
		}
		if got := s.TakeRefreshToken(); got != "" {
			t.Errorf("%s: second take gave %q", in, got)
		}
	}
}

func TestAGivenRefreshTokenIsTakenAndLeavesTheSecretsAsTheyWere(t *testing.T) {
	for _, in := range []string{
		`{}`, `{"environment":{"secrets":{}}}`, `{"environment":{"secrets":{"k":"v"}}}`, `{"secrets":{"k":"v"}}`, `{"secrets":{"refresh_token":"other"}}`,
	} {
		s := parse(t, in)
		s.GiveRefreshToken("given")
		given := s.Environment.Secrets == nil
		if got := s.TakeRefreshToken(); got != "given" || given != (parse(t, in).Environment.Secrets == nil) {
			t.Errorf("%s: %q is taken of %s", in, got, text(t, s))
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	s := parse(t, `{"name":"svc","labels":{"a":"b"},"input":[{"path":"x","suffix":["s"]}],"federation":{"members":[{"cluster_id":"b","headers":{"H":"v"},"weight":3}]},"new":{"x":1}}`)
	before := text(t, s)
	c := s.Clone()
	if !Equal(s, c) {
		t.Fatal("a clone differs")
	}
	c.Labels["a"] = "changed"
	c.Input[0].Suffix[0] = "changed"
	c.Federation.Members[0].Headers["H"] = "changed"
	*c.Federation.Members[0].Weight = 9
	c.Extra["new"][2] = 'y'
	if got := text(t, s); got != before {
		t.Errorf("the original changed: %s", got)
	}
	if Equal(s, c) || Equal(nil, c) || !Equal(nil, nil) {
		t.Error("Equal does not see the difference")
	}
	if (*Service)(nil).Clone() != nil {
		t.Error("a clone of nil")
	}
}

func TestNestedTypesKeepUnknownFieldsOnTheirOwn(t *testing.T) {
	var m Member
	in := `{"cluster_id":"b","service_name":"s","new":{"a":1}}`
	if err := json.Unmarshal([]byte(in), &m); err != nil {
		t.Fatal(err)
	}
	if out, err := json.Marshal(m); err != nil || string(out) != in {
		t.Errorf("got %s, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`{"priority":"x"}`), &m); err == nil || !strings.Contains(err.Error(), "priority") {
		t.Errorf("a wrong type gave %v", err)
	}
	var list []*Service
	if err := json.Unmarshal([]byte(`[{"name":"a","x":1},null]`), &list); err != nil || list[0].Name != "a" || list[1] != nil {
		t.Errorf("a list of services: %v", err)
	}
	if err := json.Unmarshal([]byte(`[{"name":1}]`), &list); err == nil {
		t.Error("a wrong type in a list of services was accepted")
	}
}

func TestParseMembers(t *testing.T) {
	members, violations := ParseMembers("replicas", []byte(`[{"Cluster_ID":"b","service_name":"s","new":1},{"priority":"x"},5]`))
	if diff := cmp.Diff([]string{"replicas[1].priority type", "replicas[2] type"}, rules(violations)); diff != "" {
		t.Error(diff)
	}
	if len(members) != 3 || members[0].ClusterID != "b" || string(members[0].Extra["new"]) != "1" {
		t.Errorf("members %+v", members)
	}
	if _, violations := ParseMembers("replicas", []byte(`{`)); len(violations) != 1 || violations[0].Path != "replicas" {
		t.Errorf("violations %v", violations)
	}
}
