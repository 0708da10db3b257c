package oscar

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDifferences(t *testing.T) {
	const base = `{"name":"s","image":"i","script":"x","annotations":{"a.b/c":"1"},"input":[{"storage_provider":"minio","path":"in"}],` +
		`"federation":{"members":[{"cluster_id":"b","service_name":"s"},{"cluster_id":"c","service_name":"s"}]}}`
	for name, tt := range map[string]struct{ old, now, want string }{
		"nothing":                   {`"i"`, `"i"`, ""},
		"a scalar":                  {`"image":"i"`, `"image":"j"`, `image "i" "j"`},
		"a field that is new":       {`"script"`, `"memory":"1Gi","script"`, `memory  "1Gi"`},
		"a field that goes":         {`"image":"i",`, ``, `image "i" `},
		"an empty one is none":      {`"script"`, `"output":[],"labels":{},"memory":"","script"`, ""},
		"a key with dots":           {`"a.b/c":"1"`, `"a.b/c":"2"`, `annotations["a.b/c"] "1" "2"`},
		"an item":                   {`"path":"in"`, `"path":"out"`, `input[0].path "in" "out"`},
		"members in another order":  {`{"cluster_id":"b","service_name":"s"},{"cluster_id":"c","service_name":"s"}`, `{"cluster_id":"c","service_name":"s"},{"cluster_id":"b","service_name":"s"}`, ""},
		"a member that goes":        {`{"cluster_id":"b","service_name":"s"},`, ``, `federation.members[b/s] {"cluster_id":"b","service_name":"s"} `},
		"a member's setting":        {`"cluster_id":"c",`, `"cluster_id":"c","priority":3,`, `federation.members[c/s].priority  3`},
		"a field that we know not":  {`"script"`, `"later":{"deep":[1,2]},"script"`, `later  {"deep":[1,2]}`},
		"the last of a list":        {`"input":[{"storage_provider":"minio","path":"in"}],`, ``, `input [{"storage_provider":"minio","path":"in"}] `},
		"all members":               {`[{"cluster_id":"b","service_name":"s"},{"cluster_id":"c","service_name":"s"}]`, `[]`, "federation.members[b/s] {\"cluster_id\":\"b\",\"service_name\":\"s\"} \nfederation.members[c/s] {\"cluster_id\":\"c\",\"service_name\":\"s\"} "},
		"another kind of the value": {`"a.b/c":"1"`, `"a.b/c":"1","d":"2"`, `annotations.d  "2"`},
	} {
		t.Run(name, func(t *testing.T) {
			now := strings.Replace(base, tt.old, tt.now, 1)
			if tt.old != tt.now && now == base {
				t.Fatal("the test changes nothing")
			}
			var got []string
			for _, d := range Differences(parse(t, base), parse(t, now)) {
				got = append(got, fmt.Sprintf("%s %s %s", d.Path, d.Before, d.After))
			}
			if strings.Join(got, "\n") != tt.want {
				t.Errorf("%q, want %q", strings.Join(got, "\n"), tt.want)
			}
		})
	}
}

// What is the same has no difference, and what has none is written as the same
// bytes but for what is empty.
func TestDifferencesAreSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) *Service {
			s := &Service{Name: "s"}
			s.Image = rapid.SampledFrom([]string{"", "i", "j"}).Draw(t, label+" image")
			s.Labels = rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c.d"}), rapid.SampledFrom([]string{"", "1", "2"})).Draw(t, label+" labels")
			for i := range rapid.IntRange(0, 3).Draw(t, label+" inputs") {
				s.Input = append(s.Input, IO{Provider: "minio", Path: fmt.Sprint(i, rapid.Bool().Draw(t, label+" path"))})
			}
			return s
		}
		x, y := draw("x"), draw("y")
		paths := func(list []Difference) (out []string) {
			for _, d := range list {
				out = append(out, d.Path)
			}
			slices.Sort(out)
			return out
		}
		there, back := Differences(x, y), Differences(y, x)
		if !slices.Equal(paths(there), paths(back)) {
			t.Fatalf("%v one way, %v the other", paths(there), paths(back))
		}
		if len(Differences(x, x)) > 0 {
			t.Fatal("it differs from itself")
		}
		if x.Image != y.Image && !slices.Contains(paths(there), "image") {
			t.Fatalf("image is not among %v", paths(there))
		}
		if len(there) == 0 && len(x.Input) != len(y.Input) {
			t.Fatal("another number of inputs is no difference")
		}
	})
}

func TestSecretDifferencesShowNoValue(t *testing.T) {
	split := func(doc string) []byte {
		_, patch := SplitSecrets(parse(t, doc))
		return patch
	}
	before := split(`{"name":"s","image":"i","environment":{"secrets":{"SAME":"hunter1","TURN":"hunter2","GO":"hunter3"}},` +
		`"federation":{"members":[{"type":"endpoint","url":"https://e","headers":{"X":"hunter4","Y":"hunter5"}}]}}`)
	after := split(`{"name":"s","image":"i","environment":{"secrets":{"SAME":"hunter1","TURN":"hunter6","COME":"hunter7"}},` +
		`"federation":{"members":[{"type":"endpoint","url":"https://e","headers":{"X":"hunter8","Y":"hunter5"}}]}}`)
	got, err := SecretDifferences(before, after)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(got)
	for _, want := range []string{
		"{environment.secrets.SAME unchanged}", "{environment.secrets.TURN changed}", "{environment.secrets.GO removed}",
		"{environment.secrets.COME added}", "{federation.members[https://e].headers.X changed}", "{federation.members[https://e].headers.Y unchanged}",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(text, "hunter") || len(got) != 6 {
		t.Errorf("%s", text)
	}
	if _, err := SecretDifferences([]byte("{"), nil); err == nil {
		t.Error("what is no JSON was compared")
	}
}
