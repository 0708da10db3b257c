package oscar

import (
	"encoding/json"
	"os"
	"testing"
)

// What is accepted is written, read and written again without a change; what is
// validated, completed and parted never panics, and public and patch are the
// service again.
func FuzzParseService(f *testing.F) {
	f.Add([]byte(withSecrets))
	f.Add([]byte(`{"name":"svc","expose":{"nodePort":0},"replicas":[{"cluster_id":"b","service_name":"s"}],"Environment":{"Variables":{"a":"b"}}}`))
	f.Add([]byte(`{"name":5,"federation":{"members":[{"priority":-1}]},"cpu":"1e9999","new":{"a":[1,null,"\u2028"]}}`))
	f.Add([]byte(`{"storage_providers":{"x":{"y":{"key":[{"a":null}]}}},"secrets":{"refresh_token":"r"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, violations := ParseService(data)
		if s == nil {
			if len(violations) != 1 {
				t.Fatalf("no service and %d violations", len(violations))
			}
			return
		}
		checkService(t, s, len(violations) == 0)
	})
}

func checkService(t *testing.T, s *Service, exact bool) {
	t.Helper()
	for _, v := range Validate(s) {
		if v.Rule == "" || v.Message == "" {
			t.Fatalf("a violation without words: %+v", v)
		}
		if _, err := json.Marshal(v); err != nil {
			t.Fatalf("a violation that cannot be sent: %v", err)
		}
	}
	Buckets(s)
	out := mustEncode(s)
	if !json.Valid(out) {
		t.Fatalf("written as %s", out)
	}
	if !Equal(s.Clone(), s) {
		t.Fatal("a clone differs")
	}
	if exact && len(out) <= MaxServiceBytes {
		again, violations := ParseService(out)
		if len(violations) > 0 || string(mustEncode(again)) != string(out) {
			t.Fatalf("read back as %s (%v), was %s", mustEncode(again), violations, out)
		}
		public, patch := SplitSecrets(again)
		again.TakeRefreshToken()
		again.dropCredentials()
		merged, err := MergePatch(mustEncode(public), patch)
		if err != nil {
			t.Fatal(err)
		}
		if back, violations := ParseService(merged); len(violations) > 0 || !Equal(back, again) {
			t.Fatalf("put together as %s (%v), was %s", merged, violations, mustEncode(again))
		}
	}
	full := s.WithDefaults()
	if out, err := full.MarshalJSON(); err != nil || !json.Valid(out) {
		t.Fatalf("with defaults: %s, %v", out, err)
	}
}

func FuzzParseFDL(f *testing.F) {
	if data, err := os.ReadFile("../../examples/grayify/grayify.yaml"); err == nil {
		f.Add(data)
	} else {
		f.Fatal(err)
	}
	f.Add([]byte(quickstart))
	f.Add([]byte(bomb()))
	f.Add([]byte("functions: {oscar: [{a: &a {name: x, labels: {<<: *a, n: 0x1}}}]}\nclusters: {b: {}}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fdl, violations := ParseFDL(data)
		if fdl == nil {
			if len(violations) != 1 {
				t.Fatalf("no FDL and %d violations", len(violations))
			}
			return
		}
		for _, function := range fdl.Functions {
			checkService(t, function.Service, false)
		}
	})
}

func FuzzMergePatch(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1},"c":[1,2]}`), []byte(`{"a":{"b":null,"d":"e"},"c":{}}`))
	f.Add([]byte(`null`), []byte(`{"a":{"b":{"c":null}}}`))
	f.Fuzz(func(t *testing.T, doc, patch []byte) {
		out, err := MergePatch(doc, patch)
		if err != nil {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("not JSON: %s", out)
		}
		twice, err := MergePatch(out, patch)
		if err != nil || string(twice) != string(out) {
			t.Fatalf("applied twice %s (%v), once %s", twice, err, out)
		}
	})
}
