package oscar

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The cases of RFC 7386, appendix A.
func TestMergePatchOfTheRFC(t *testing.T) {
	for _, tc := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{``, `{"a":1}`, `{"a":1}`},
		{`{"a":1}`, ``, `{"a":1}`},
	} {
		got, err := MergePatch([]byte(tc[0]), []byte(tc[1]))
		if err != nil || string(got) != tc[2] {
			t.Errorf("MergePatch(%s, %s) = %s, %v; want %s", tc[0], tc[1], got, err, tc[2])
		}
	}
}

func TestMergePatchRefuses(t *testing.T) {
	deep := strings.Repeat(`{"a":`, MaxDepth+1) + "1" + strings.Repeat("}", MaxDepth+1)
	for _, tc := range [][2]string{{`{`, `{}`}, {`{}`, `{`}, {`{}`, deep}, {deep, `{}`}, {`{"secret":"hunter2"`, `{}`}} {
		_, err := MergePatch([]byte(tc[0]), []byte(tc[1]))
		if err == nil {
			t.Errorf("MergePatch(%.30s, %.30s) was accepted", tc[0], tc[1])
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error holds a value: %v", err)
		}
	}
}

// jsonValue draws any JSON value up to a depth.
func jsonValue(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.IntRange(-9, 9), func(i int) any { return float64(i) }))
	if depth == 0 {
		return leaf
	}
	key := rapid.StringMatching(`[a-d]`)
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(jsonValue(depth-1), 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(key, jsonValue(depth-1), 0, 4), func(m map[string]any) any { return m }))
}

// oracle is RFC 7386, section 2, over the types of encoding/json.
func oracle(target, patch any) any {
	change, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if was, ok := target.(map[string]any); ok {
		maps.Copy(out, was)
	}
	for key, v := range change {
		if v == nil {
			delete(out, key)
		} else {
			out[key] = oracle(out[key], v)
		}
	}
	return out
}

func TestMergePatchAgainstAnOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc, patch := jsonValue(3).Draw(t, "doc"), jsonValue(3).Draw(t, "patch")
		docJSON, err1 := json.Marshal(doc)
		patchJSON, err2 := json.Marshal(patch)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		got, err := MergePatch(docJSON, patchJSON)
		if err != nil {
			t.Fatal(err)
		}
		var have any
		if err := json.Unmarshal(got, &have); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		wantJSON, err := json.Marshal(oracle(doc, patch))
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := json.Unmarshal(wantJSON, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Fatalf("MergePatch(%s, %s) (-want +got):\n%s", docJSON, patchJSON, diff)
		}
		twice, err := MergePatch(got, patchJSON)
		if err != nil || string(twice) != string(got) {
			t.Fatalf("applied twice: %s, %v; once: %s", twice, err, got)
		}
	})
}

// A patch that is made of two objects makes the second of the first, and there is none only for
// one that has a null.
func TestMakePatch(t *testing.T) {
	object := rapid.MapOfN(rapid.StringMatching(`[a-d]`), jsonValue(2), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		from, to := object.Draw(t, "from"), object.Draw(t, "to")
		if rapid.Bool().Draw(t, "near") {
			to = maps.Clone(from)
			to[rapid.StringMatching(`[a-d]`).Draw(t, "key")] = jsonValue(1).Draw(t, "value")
		}
		a, b := encodeJSON(t, from), encodeJSON(t, to)
		patch, ok, err := MakePatch(a, b)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			if !strings.Contains(string(b), "null") {
				t.Fatalf("no patch makes %s of %s", b, a)
			}
			return
		}
		got, err := MergePatch(a, patch)
		if err != nil {
			t.Fatal(err)
		}
		var read any
		if err := json.Unmarshal(got, &read); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(to), read); diff != "" {
			t.Fatalf("%s patched with %s (-want +got):\n%s", a, patch, diff)
		}
		if same := cmp.Equal(any(from), any(to)); same != (string(patch) == "{}") {
			t.Fatalf("of %s and %s the patch is %s", a, b, patch)
		}
	})
}

func encodeJSON(t *rapid.T, v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMakePatchOfWhatIsNoObject(t *testing.T) {
	for _, tc := range [][2]string{{`{}`, `[]`}, {`1`, `{}`}, {``, `{}`}} {
		if patch, ok, err := MakePatch([]byte(tc[0]), []byte(tc[1])); ok || err != nil {
			t.Errorf("MakePatch(%s, %s) = %s, %v", tc[0], tc[1], patch, err)
		}
	}
	if _, _, err := MakePatch([]byte(`{`), []byte(`{}`)); err == nil {
		t.Error("what is no JSON has a patch")
	}
}
