package ui

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/openid"
)

// The form of the page sends a text where OSCAR wants one, whatever YAML makes of it: cpu: 0.1.
func TestTheFormKnowsWhatIsText(t *testing.T) {
	source, err := os.ReadFile("src/create/keys.ts")
	if err != nil {
		t.Fatal(err)
	}
	text := reflect.TypeFor[string]()
	isText := func(f reflect.Type) bool { return f.Kind() == reflect.String }
	for set, of := range map[string]struct {
		object reflect.Type
		is     func(reflect.Type) bool
	}{
		"texts":     {reflect.TypeFor[oscar.Service](), isText},
		"textLists": {reflect.TypeFor[oscar.Service](), func(f reflect.Type) bool { return f.Kind() == reflect.Slice && f.Elem() == text }},
		"textMaps": {reflect.TypeFor[oscar.Service](), func(f reflect.Type) bool {
			return f.Kind() == reflect.Map && f.Elem() == text || f == reflect.TypeFor[*oscar.Volume]()
		}},
		"inExpose":     {reflect.TypeFor[oscar.Expose](), isText},
		"inFederation": {reflect.TypeFor[oscar.Federation](), isText},
		"inMember":     {reflect.TypeFor[oscar.Member](), isText},
	} {
		known := wordsOf(t, string(source), set)
		for _, f := range reflect.VisibleFields(of.object) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && name != "-" && of.is(f.Type) != slices.Contains(known, name) {
				t.Errorf("%s is of type %s, and among the %s of keys.ts: %v", name, f.Type, set, slices.Contains(known, name))
			}
		}
	}
}

// Of KServe the form knows what OSCAR v4.1.2 does not read as text: package oscar hands these keys on as they come.
func TestTheFormKnowsWhatOfKServeIsNoText(t *testing.T) {
	source, err := os.ReadFile("src/create/keys.ts")
	if err != nil {
		t.Fatal(err)
	}
	var noText []string
	for key, value := range map[string]any{
		"min_scale": 0, "max_scale": 1, "cpu": "0.2", "memory": "256Mi", "enable_gpu": false, "set_auth": true,
	} {
		service := &oscar.Service{Kserve: &oscar.Kserve{Extra: oscar.Extra{key: nil}}}
		if unknown := oscar.UnknownKeys(service); len(unknown) > 0 {
			t.Errorf("package oscar does not know %s", unknown[0].Path)
		}
		if _, text := value.(string); !text {
			noText = append(noText, key)
		}
	}
	slices.Sort(noText)
	if got := slices.Sorted(slices.Values(wordsOf(t, string(source), "noTextInKserve"))); !slices.Equal(got, noText) {
		t.Errorf("keys.ts has %q, want %q", got, noText)
	}
}

// The page asks an issuer for the scopes that the CLI asks for.
func TestThePageKnowsTheScopesOfALogin(t *testing.T) {
	source, err := os.ReadFile("src/session/oidc.ts")
	if err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string][]string{"loginScopes": openid.LoginScopes(), "groupScopes": openid.GroupScopes()} {
		if got := wordsOf(t, string(source), set); !slices.Equal(got, want) {
			t.Errorf("%s are %q, want %q", set, got, want)
		}
	}
}

// wordsOf are the members of a set in a source of TypeScript.
func wordsOf(t *testing.T, source, set string) (words []string) {
	t.Helper()
	body := regexp.MustCompile(`(?s)const ` + set + ` = new Set\(\[(.*?)\]\)`).FindStringSubmatch(source)
	if body == nil {
		t.Fatalf("there is no %s", set)
	}
	for _, m := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(body[1], -1) {
		words = append(words, m[1])
	}
	return words
}
